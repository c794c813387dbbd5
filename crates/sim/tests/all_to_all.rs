//! Many sessions and short calls among all threads, for some hundred microseconds of virtual time.

use petasos_proto::CongestionConfig;
use petasos_sim::LeafSpine;
use petasos_sim::all_to_all::{self, AllToAllConfig, AllToAllResult, HostConfig};

/// Ten hosts on two leaves.
fn ten_hosts() -> AllToAllConfig {
    let shape = LeafSpine { leaves: 2, hosts_per_leaf: 5, spines: 2, ..LeafSpine::hundred_hosts() };
    AllToAllConfig { shape, drain: true, ..AllToAllConfig::erpc(1) }
}

#[track_caller]
fn run(config: &AllToAllConfig) -> AllToAllResult {
    all_to_all::run(config).unwrap_or_else(|violation| panic!("seed {}: {violation}", config.seed))
}

#[test]
fn a_hundred_threads_call_each_other() {
    let config = AllToAllConfig { measured_nanos: 100_000, drain: true, ..AllToAllConfig::erpc(1) };
    let result = run(&config);
    assert_eq!((result.threads, result.sessions_per_thread), (100, 198));
    assert!(result.mrps_per_host > 1.0, "{result:?}");
    assert_eq!((result.traffic.drops(), result.traffic.retransmissions), (0, 0), "{result:?}");
}

#[test]
fn the_rate_does_not_depend_on_the_number_of_sessions() {
    let few = run(&ten_hosts());
    let many = run(&AllToAllConfig { sessions_per_pair: 200, ..ten_hosts() });
    assert_eq!((few.sessions_per_thread, many.sessions_per_thread), (18, 3600));
    let ratio = many.mrps_per_host / few.mrps_per_host;
    assert!((0.95..1.05).contains(&ratio), "{few:?}\n{many:?}");
}

#[test]
fn a_full_receive_queue_drops_and_every_call_still_ends_once() {
    // A thread may get 60 answers and, at times, many more requests than that.
    let host = HostConfig { receive_frames: 32, ..HostConfig::default() };
    let short = run(&AllToAllConfig { host, ..ten_hosts() });
    assert!(short.traffic.drops_receive_queue > 0, "{short:?}");
    assert_eq!(short.traffic.receive_queue_frames_max, 32);
    let roomy = run(&ten_hosts());
    assert_eq!(roomy.traffic.drops_receive_queue, 0, "{roomy:?}");
    let deepest = roomy.traffic.receive_queue_frames_max;
    assert!((33..4096).contains(&deepest), "{roomy:?}");
}

#[test]
fn a_seed_decides_everything() {
    let config = AllToAllConfig { measured_nanos: 50_000, ..ten_hosts() };
    assert_eq!(run(&config), run(&config));
    assert_ne!(run(&config), run(&AllToAllConfig { seed: 2, ..config }));
}

#[test]
fn what_arrives_during_a_pause_is_bounded_by_what_was_granted() {
    // While a thread is paused, the calls of all others fill its queue: nine times 400.
    let host = HostConfig { pause_nanos: 300_000, ..HostConfig::default() };
    let mut config = AllToAllConfig { host, in_flight: 400, sessions_per_pair: 50, ..ten_hosts() };
    config.session.credits = 32;
    config.host.receive_frames = 1024;
    let overrun = run(&config);
    assert!(overrun.traffic.drops_receive_queue > 0, "{overrun:?}");
    // Requests: 450 sessions with 2 credits. Answers: 400 calls.
    config.session.credits = 2;
    config.host.receive_frames = 450 * 2 + 400;
    let granted = run(&config);
    assert_eq!((granted.traffic.drops(), granted.traffic.retransmissions), (0, 0), "{granted:?}");
}

#[test]
fn long_requests_share_the_receive_queue_whatever_the_number_of_sessions() {
    // A thread that is away for 300 us finds in its queue all that was granted. Without congestion
    // control nothing else keeps clients back.
    let host = HostConfig { pause_nanos: 300_000, receive_frames: 2048, ..HostConfig::default() };
    let base = AllToAllConfig {
        host,
        sessions_per_pair: 25,
        in_flight: 60,
        request_bytes: 64 << 10,
        measured_nanos: 3_000_000,
        ..ten_hosts()
    };
    let mut papers = base;
    papers.session.congestion = CongestionConfig::none();
    (papers.session.credits, papers.session.credits_first) = (64, 64);
    let mut shared = papers;
    shared.session.credits_first = 8;
    let (papers, shared) = (run(&papers), run(&shared));
    assert!(papers.traffic.drops_receive_queue > 0, "{papers:?}");
    let lost = (shared.traffic.drops_receive_queue, shared.traffic.retransmissions);
    assert_eq!(lost, (0, 0), "{shared:?}");
    assert!(shared.mrps_per_host > 0.8 * papers.mrps_per_host, "{papers:?}\n{shared:?}");
}
