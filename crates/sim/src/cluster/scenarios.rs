//! The scenarios that run for every change, with fixed and with fresh seeds.

use petasos_base::{Rng, Time};
use petasos_endpoint::{
    CongestionConfig, EndpointConfig, KeyLife, PoolConfig, Recovery, SessionConfig, Switches,
};

use petasos_netio::memory::RingConfig;

use super::plan::Workload;
use super::scenario::{Scenario, Shape, Step, Who};
use crate::{Action, FaultProfile, LeafSpine, LinkConfig, Links};

type Make = fn(&mut Rng) -> Scenario;

const SCENARIOS: [(&str, Make); 20] = [
    ("star", star),
    ("mesh", mesh),
    ("leaf-spine", leaf_spine),
    ("lossy", lossy),
    ("go-back-n", go_back_n),
    ("hostile", hostile),
    ("undetected", undetected),
    ("sealed", sealed),
    ("rings", rings),
    ("rings-crash", rings_crash),
    ("partition", partition),
    ("pause", pause),
    ("crash", crash),
    ("control", control),
    ("incast", incast),
    ("tiny-credits", tiny_credits),
    ("tiny-pool", tiny_pool),
    ("backlog", backlog),
    ("copies", copies),
    ("random", random),
];

/// The names of all scenarios.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

/// The scenario with this name. `seed` may choose its faults and their times.
pub fn by_name(name: &str, seed: u64) -> Option<Scenario> {
    let (name, make) = SCENARIOS.iter().find(|(known, _)| *known == name)?;
    let mut scenario = make(&mut Rng::new(seed ^ 0x5ce7_a210));
    scenario.name = name;
    scenario.script.sort_by_key(|(at, _)| *at);
    Some(scenario)
}

/// A clean star of three hosts. The other scenarios are variations of this one.
fn star(_: &mut Rng) -> Scenario {
    Scenario {
        name: "",
        shape: Shape::Star(3),
        link: LinkConfig::new(25, 1000),
        who: Who::All,
        sessions: 2,
        control: false,
        sealed: false,
        rings: None,
        endpoint: endpoint(|_| {}),
        switches: Switches::default(),
        workload: Workload::default(),
        faults: FaultProfile::clean(),
        script: Vec::new(),
        calm_at: millis(20),
        lateness_nanos_max: 5_000_000,
        amplification_max: 1.5,
    }
}

fn mesh(rng: &mut Rng) -> Scenario {
    let workload = Workload { calls_per_host: 200, ..Workload::default() };
    Scenario { shape: Shape::Mesh(8), workload, ..star(rng) }
}

fn leaf_spine(rng: &mut Rng) -> Scenario {
    let workload = Workload {
        calls_per_host: 40,
        message_bytes_max: 1 << 14,
        think_nanos: 20_000,
        ..Workload::default()
    };
    Scenario {
        shape: Shape::LeafSpine(Box::new(LeafSpine::hundred_hosts())),
        who: Who::Some(4),
        workload,
        faults: FaultProfile { loss: 0.001, ..FaultProfile::clean() },
        amplification_max: 2.0,
        ..star(rng)
    }
}

fn lossy(rng: &mut Rng) -> Scenario {
    let faults = FaultProfile::lossy();
    Scenario { faults, calm_at: millis(1000), amplification_max: 2.0, ..star(rng) }
}

fn go_back_n(rng: &mut Rng) -> Scenario {
    let endpoint = endpoint(|session| {
        (session.recovery, session.credits) = (Recovery::GoBackN, 32);
    });
    Scenario { endpoint, amplification_max: 4.0, ..lossy(rng) }
}

fn hostile(rng: &mut Rng) -> Scenario {
    let faults = FaultProfile { undetected: 0.0, ..FaultProfile::hostile() };
    let workload = Workload { calls_per_host: 150, ..Workload::default() };
    Scenario { faults, workload, amplification_max: 8.0, ..lossy(rng) }
}

/// Undetected damage reaches the protocol. Every call has a timeout, because a damaged number may
/// take a slot away.
fn undetected(rng: &mut Rng) -> Scenario {
    let faults = FaultProfile {
        corrupt: 0.05,
        undetected: 0.2 * rng.below(6) as f64,
        ..FaultProfile::lossy()
    };
    let workload = Workload { calls_per_host: 150, always_timeouts: true, ..Workload::default() };
    Scenario { faults, workload, amplification_max: 20.0, ..lossy(rng) }
}

/// Damage that UDP's checksum misses and seals detect: every rule holds, and keys change often.
fn sealed(rng: &mut Rng) -> Scenario {
    let endpoint =
        EndpointConfig { key_life: KeyLife::of_log2(10 + rng.below(6) as u32), ..endpoint(|_| {}) };
    Scenario { sealed: true, endpoint, ..undetected(rng) }
}

/// Two machines: sessions within one use rings that are often full, others the network. Altered
/// copies of frames arrive over the other path, and must not be delivered (W32).
fn rings(rng: &mut Rng) -> Scenario {
    let rings = RingConfig {
        machines: 2,
        ring_bytes: 4096 << rng.below(6),
        forge_every: 1 + rng.below(20),
    };
    let mut script = Vec::new();
    for _ in 0..8 {
        let begin = rng.below(10_000_000);
        let until = nanos(begin + (1 << (14 + rng.below(8))));
        let host = rng.below(4) as u32;
        script.push((nanos(begin), Step::World(Action::Pause { host, until })));
    }
    let faults = FaultProfile::random(rng);
    Scenario {
        shape: Shape::Star(4),
        rings: Some(rings),
        script,
        faults,
        lateness_nanos_max: 50_000_000,
        calm_at: millis(100),
        amplification_max: 8.0,
        ..star(rng)
    }
}

/// Hosts die with frames in their rings, and restart.
fn rings_crash(rng: &mut Rng) -> Scenario {
    let Scenario { rings, .. } = rings(rng);
    Scenario { rings, ..crash(rng) }
}

fn partition(rng: &mut Rng) -> Scenario {
    let mut script = Vec::new();
    for _ in 0..3 {
        let begin = 1_000_000 + rng.below(60_000_000);
        let groups = (0..4).map(|_| rng.below(2) as u32).collect();
        script.push((nanos(begin), Step::World(Action::Partition(groups))));
        let end = begin + rng.below(200_000_000);
        script.push((nanos(end), Step::World(Action::Heal)));
    }
    let link = Links::OfHost(rng.below(4) as u32);
    script.push((nanos(rng.below(40_000_000)), Step::World(Action::Cut(link))));
    script.push((nanos(40_000_000 + rng.below(9_000_000)), Step::World(Action::Mend(link))));
    let (shape, calm_at) = (Shape::Star(4), millis(300));
    Scenario { shape, script, calm_at, amplification_max: 4.0, ..star(rng) }
}

/// Hosts lose their processors for longer than retransmission timeouts.
fn pause(rng: &mut Rng) -> Scenario {
    let mut script = Vec::new();
    for _ in 0..8 {
        let begin = rng.below(40_000_000);
        let until = nanos(begin + (1 << (14 + rng.below(13))));
        let host = rng.below(3) as u32;
        script.push((nanos(begin), Step::World(Action::Pause { host, until })));
    }
    let lateness_nanos_max = 400_000_000;
    let faults = FaultProfile::random(rng);
    let calm_at = millis(300);
    Scenario { script, faults, calm_at, lateness_nanos_max, amplification_max: 8.0, ..star(rng) }
}

fn crash(rng: &mut Rng) -> Scenario {
    let mut script = Vec::new();
    for host in 0..3 {
        let mut at = 0;
        for _ in 0..2 {
            at += 1_000_000 + rng.below(30_000_000);
            script.push((nanos(at), Step::Crash(host)));
            at += 1_000 + (1 << rng.below(25));
            script.push((nanos(at), Step::Revive(host)));
        }
    }
    let faults = FaultProfile::random(rng);
    let calm_at = millis(300);
    Scenario { shape: Shape::Star(5), script, faults, calm_at, amplification_max: 8.0, ..star(rng) }
}

/// Crashes and broken connections under the control protocol; the harness informs no host.
fn control(rng: &mut Rng) -> Scenario {
    let mut base = crash(rng);
    for _ in 0..20 {
        let (one, other) = (rng.below(5) as u32, rng.below(5) as u32);
        let at = nanos(rng.below(100_000_000));
        base.script.push((at, Step::Break(one, other)));
        let (one, other) = (rng.below(5) as u32, rng.below(5) as u32);
        let begin = rng.below(100_000_000);
        let until = nanos(begin + (1 << (14 + rng.below(10))));
        base.script.push((nanos(begin), Step::CutControl(one, other, until)));
    }
    let workload = Workload { think_nanos: 200_000, ..Workload::default() };
    Scenario { control: true, sessions: 4, workload, ..base }
}

/// Many send large messages to one, through a switch with little room.
fn incast(rng: &mut Rng) -> Scenario {
    let workload = Workload {
        calls_per_host: 40,
        message_bytes_max: 1 << 20,
        nested: 0.0,
        think_nanos: 0,
        ..Workload::default()
    };
    let mut endpoint = endpoint(|session| session.credits = 64);
    // With congestion control, nothing would be dropped.
    endpoint.congestion = Some(CongestionConfig::none());
    Scenario {
        shape: Shape::Shallow(17, 256 << 10),
        who: Who::ToFirst,
        sessions: 1,
        endpoint,
        workload,
        amplification_max: 4.0,
        ..star(rng)
    }
}

fn tiny_credits(rng: &mut Rng) -> Scenario {
    let credits = 1 + rng.below(3) as u32;
    let slots = 1 << rng.below(3);
    let recovery = if rng.chance(0.5) { Recovery::Selective } else { Recovery::GoBackN };
    let endpoint = endpoint(|session| {
        (session.credits, session.slots, session.recovery) = (credits, slots, recovery);
    });
    let workload =
        Workload { calls_per_host: 100, message_bytes_max: 1 << 15, ..Workload::default() };
    Scenario { endpoint, workload, amplification_max: 3.0, ..lossy(rng) }
}

/// Pools that hold a handful of messages: requests are refused and answers fail.
fn tiny_pool(rng: &mut Rng) -> Scenario {
    let lent_bytes_max = (1 << 16) << rng.below(3);
    let kept_bytes_max = lent_bytes_max >> rng.below(3);
    let mut endpoint = endpoint(|session| session.message_bytes_max = 1 << 16);
    endpoint.pool = PoolConfig { kept_bytes_max, lent_bytes_max, reuse: rng.chance(0.8) };
    let workload =
        Workload { message_bytes_max: 1 << 14, think_nanos: 5_000, ..Workload::default() };
    Scenario { endpoint, workload, amplification_max: 3.0, ..lossy(rng) }
}

/// More calls than slots and backlog hold.
fn backlog(rng: &mut Rng) -> Scenario {
    let mut endpoint = endpoint(|session| (session.slots, session.credits) = (2, 8));
    endpoint.backlog_max = 1 + rng.below(8) as u32;
    endpoint.request_bytes_in_flight_max = 1 << 19;
    let workload = Workload {
        window: 64,
        think_nanos: 1_000,
        timeouts: 0.3,
        cancels: 0.3,
        ..Workload::default()
    };
    Scenario { endpoint, workload, amplification_max: 3.0, ..lossy(rng) }
}

/// Nothing is lost, but much arrives twice and late, because the path's delay exceeds timeouts.
fn copies(rng: &mut Rng) -> Scenario {
    let faults = FaultProfile { duplicate: 0.3, reorder: 0.3, ..FaultProfile::clean() };
    let link = LinkConfig {
        reorder_nanos_max: 1 << (10 + rng.below(16)),
        jitter_nanos: rng.below(100_000),
        ..LinkConfig::new(25, 1000 << rng.below(13))
    };
    let workload = Workload { calls_per_host: 150, ..Workload::default() };
    let mut scenario = Scenario { faults, link, workload, amplification_max: 10.0, ..lossy(rng) };
    // To every algorithm, packets that are overtaken by tens of milliseconds mean congestion.
    scenario.endpoint.congestion = Some(CongestionConfig::none());
    scenario
}

/// A mixture of all faults.
fn random(rng: &mut Rng) -> Scenario {
    let hosts = 2 + rng.below(6) as u32;
    let endpoint = endpoint(|session| {
        session.slots = 1 << rng.below(7);
        session.credits = 1 << rng.below(9);
        let selective = rng.chance(0.7);
        session.recovery = if selective { Recovery::Selective } else { Recovery::GoBackN };
        session.datagram_bytes_max = 1100 + rng.below(400) as u32;
    });
    let switches = Switches {
        zero_copy_requests: rng.chance(0.7),
        preallocated_responses: rng.chance(0.7),
        batched_clock: rng.chance(0.7),
        loss: 0.0,
    };
    let mut probability = |max: f64| rng.below(1000) as f64 / 1000.0 * max;
    let workload = Workload {
        deferred: probability(0.5),
        silent: probability(0.02),
        nested: probability(0.3),
        timeouts: probability(0.3),
        cancels: probability(0.3),
        ..Workload::default()
    };
    let workload = Workload {
        calls_per_host: 50 + rng.below(150),
        window: 1 << rng.below(7),
        think_nanos: 1 << rng.below(18),
        message_bytes_max: 4096 << rng.below(7),
        payload_bytes: endpoint.session.datagram_bytes_max - 24,
        ..workload
    };
    let scripts = [star, partition, pause, crash];
    let base = scripts[rng.below(4) as usize](rng);
    let shape = if base.script.is_empty() { Shape::Mesh(hosts) } else { base.shape };
    let faults = FaultProfile::random(rng);
    let calm_at = millis(400);
    Scenario {
        shape,
        endpoint,
        switches,
        workload,
        faults,
        calm_at,
        amplification_max: 20.0,
        ..base
    }
}

fn endpoint(change: impl FnOnce(&mut SessionConfig)) -> EndpointConfig {
    let mut session = SessionConfig { message_bytes_max: 1 << 20, ..SessionConfig::default() };
    change(&mut session);
    EndpointConfig { session, ..EndpointConfig::default() }
}

const fn nanos(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

const fn millis(millis: u64) -> Time {
    nanos(millis * 1_000_000)
}
