//! Sessions of bound pairs (RT12), which are sessions of one slot otherwise: W14 to W26 hold.

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::{CREDITS_MAX, Encoding, Kind, REQUEST_NUMBERS, RejectCode};
use proptest::prelude::*;

use super::forge::FromServer;
use super::link::{Fate, bytes_of};
use super::pair::{Bound, Config, FIRST, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};
use super::property::{config, is_right, step};
use crate::{
    AlgorithmConfig, Binding, Call, CallOptions, ClientSession, CongestionConfig, DctcpConfig,
    LinkPath, SessionParams, Sharer, SwiftConfig, TimelyConfig, TimerConfig,
};

const LAST: u64 = REQUEST_NUMBERS - 1;

fn bound(request: u64, is_whole: bool) -> Config {
    Config { slots: 1, bound: Some(Bound { request, is_whole }), ..Config::default() }
}

#[test]
fn rt12_a_claims_request_is_sent_from_its_beginning() {
    for request in [0, 1, 4711, LAST] {
        for (bytes, packets) in [(0, 1), (32, 1), (PAYLOAD, 1), (3 * PAYLOAD + 1, 4)] {
            let mut pair = Pair::new(bound(request, false));
            let method = pair.call(Plan::new(bytes, 2 * PAYLOAD));
            pair.run();
            assert_eq!(pair.outcome(method), Outcome::Answered);
            let sent = pair.sent(Kind::Request);
            assert!(sent.iter().map(|sent| sent.start).eq(0..packets), "{sent:?}");
            assert!(pair.network.log.iter().all(|sent| sent.request == request));
            assert_eq!(pair.kinds().last(), Some(&Kind::Done));
        }
    }
}

#[test]
fn rt12_a_whole_request_is_not_sent_again() {
    for (response, kinds) in [
        (32, &[Kind::Response, Kind::Done][..]),
        (2 * PAYLOAD, &[Kind::Response, Kind::Pull, Kind::Response, Kind::Done][..]),
    ] {
        for request in [0, LAST] {
            let mut pair = Pair::new(bound(request, true));
            let method = pair.call(Plan::new(PAYLOAD, response).after_us(3000));
            pair.run();
            assert_eq!(pair.outcome(method), Outcome::Answered);
            assert_eq!(pair.kinds(), kinds);
            // The first packet is what is answered.
            assert_eq!(pair.sent(Kind::Response)[0].echo, FIRST);
            assert_eq!(pair.client.rtt_ns().is_some(), kinds.len() == 4, "of the direct path only");
        }
    }
}

#[test]
fn rt12_of_a_whole_request_packet_0_is_repeated_to_the_worker() {
    let mut pair = Pair::new(bound(5, true));
    pair.network.doom(Kind::Response, 0..2, Fate::Lost);
    let method = pair.call(Plan::new(700, 32).after_us(100_000));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    let sent = pair.sent(Kind::Request);
    assert!(!sent.is_empty() && sent.iter().all(|sent| sent.start == 0 && sent.end == 700));
    assert!(!pair.sent(Kind::Ack).is_empty(), "the worker says that it runs (W17)");
    assert_eq!((pair.runs[0], pair.server.stats().requests), (1, 1));
}

#[test]
fn rt12_a_reset_is_not_believed() {
    for is_whole in [false, true] {
        let mut pair = Pair::new(bound(5, is_whole));
        let method = pair.call(Plan::new(32, 32).after_us(100));
        pair.run_for_us(10);
        for request in [5, 6] {
            pair.forge_to_client(&FromServer::new(Kind::Reset, request, 0));
        }
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
    }
}

#[test]
fn rt17_a_claim_that_was_rejected_never_runs() {
    for bytes in [32, 3 * PAYLOAD] {
        let mut pair = Pair::new(bound(LAST, false));
        let method = pair.call_after(Plan::new(bytes, 32), 1000);
        pair.network.doom(Kind::Request, 0..1, Fate::Late(1_000_000));
        pair.run_for_us(2);
        assert!(pair.server.reject_pair(LAST - 1, RejectCode::Again).is_none(), "another's");
        let reject = pair.server.reject_pair(LAST, RejectCode::Again).expect("nothing has come");
        // The rejection is lost: what comes late is answered with it.
        let reject = bytes_of(reject.header, &[]);
        assert_eq!(petasos_wire::Packet::parse(&reject).expect("it is one").echo(), FIRST);
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Rejected(Some(RejectCode::Again)));
        assert!(pair.kinds().contains(&Kind::Done), "the worker need not keep it");
        assert_eq!(pair.runs[0], 0);
    }
}

/// A session for pairs, and the path of its link.
fn pairs(congestion: &CongestionConfig, count: usize) -> (LinkPath, Vec<ClientSession<()>>) {
    let of = *Pair::new(bound(5, false)).client.params();
    let params = SessionParams { credits_max: CREDITS_MAX, room_packets: 256, ..of };
    let path = LinkPath::new(&TimerConfig::default(), congestion, &params);
    (path, (0..count).map(|_| ClientSession::for_pairs(params, congestion)).collect())
}

/// Binds a session to a claim of this length.
fn bind(session: &mut ClientSession<()>, path: &mut LinkPath, request_bytes: u32, now: Time) {
    let options = CallOptions {
        method: 0,
        encoding: Encoding::Opaque,
        request_bytes,
        response_bytes_max: 32,
        timeout_at: Time::NEVER,
    };
    let binding = Binding { request: 9, is_whole: false, credits: Some(1000) };
    session.bind(*session.params(), path, binding, Call { options, context: () }, now);
}

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

#[test]
fn rt12_the_times_of_a_link_are_handed_on() {
    let mut pair = Pair::new(bound(5, false));
    let fresh_ns = pair.client.rto_ns(0);
    for _ in 0..2 {
        pair.call(Plan::new(32, 32));
        pair.run();
    }
    let rtt_ns = pair.path.rtt_ns();
    assert!(rtt_ns.is_some() && pair.client.rto_ns(0) < fresh_ns);
    let (mut path, mut sessions) = pairs(&CongestionConfig::none(), 1);
    assert_eq!(path.rtt_ns(), None);
    path.clone_from(&pair.path);
    bind(&mut sessions[0], &mut path, 32, at(1));
    assert_eq!(sessions[0].rtt_ns(), rtt_ns);
    assert_eq!(sessions[0].timer_ns(), sessions[0].rto_ns(0));
}

#[test]
fn w26_what_ready_has_granted_lapses() {
    let (mut path, mut sessions) = pairs(&CongestionConfig::none(), 1);
    let session = &mut sessions[0];
    for start in [1, 100] {
        bind(session, &mut path, 32, at(start));
        assert_eq!(session.window(), 1000);
        session.handle_timeout(at(start + 7));
        assert_eq!(session.window(), 1000);
        session.handle_timeout(at(start + 8));
        assert_eq!(session.window(), 32);
        let number = session.call_in(0);
        assert!(session.cancel(number).is_some());
        session.leave(&mut path);
    }
}

/// What so many sessions may have in flight together.
fn windows(sessions: &[ClientSession<()>]) -> u32 {
    sessions.iter().map(ClientSession::window).sum()
}

#[test]
fn rt12_k_pairs_of_a_link_send_no_more_than_one_session() {
    let swift = SwiftConfig { window_initial: 64.0, ..SwiftConfig::default() };
    let dctcp = DctcpConfig { window_initial: 64.0, ..DctcpConfig::default() };
    for algorithm in [AlgorithmConfig::Swift(swift), AlgorithmConfig::Dctcp(dctcp)] {
        let congestion = CongestionConfig { algorithm, ..CongestionConfig::default() };
        let (mut path, mut sessions) = pairs(&congestion, 64);
        for count in 1..=64 {
            bind(&mut sessions[count - 1], &mut path, 3 * PAYLOAD, at(1));
            for session in &mut sessions[..count] {
                session.share(&path);
            }
            let all = windows(&sessions[..count]);
            assert!((32..=64).contains(&all), "{count} pairs: {all}");
        }
        // All but four end, and these have the path, or half of it, again.
        for session in &mut sessions[4..] {
            session.fail_all();
            session.leave(&mut path);
        }
        sessions[..4].iter_mut().for_each(|session| session.share(&path));
        assert!((16..=64).contains(&windows(&sessions[..4])), "{}", windows(&sessions[..4]));
        for session in &mut sessions[..4] {
            session.fail_all();
            session.leave(&mut path);
        }
        assert_eq!(path.sharers(), 0);
        bind(&mut sessions[9], &mut path, 3 * PAYLOAD, at(2));
        assert!(sessions[9].window() >= 32);
    }
}

#[test]
fn rt12_a_path_without_congestion_is_not_divided_and_short_calls_do_not_share() {
    let timely = AlgorithmConfig::Timely(TimelyConfig::default());
    let congestion = CongestionConfig { algorithm: timely, ..CongestionConfig::default() };
    let (mut path, mut sessions) = pairs(&congestion, 3);
    for session in &mut sessions[..2] {
        bind(session, &mut path, 3 * PAYLOAD, at(1));
        session.share(&path);
        assert_eq!((session.window(), session.is_paced()), (1000, false));
    }
    bind(&mut sessions[2], &mut path, PAYLOAD, at(1));
    assert_eq!((path.sharers(), path.parts()), (2, 2));
    sessions[2].join(&mut path);
    sessions[2].join(&mut path);
    assert_eq!((path.sharers(), path.parts()), (3, 4), "its response is long");
}

#[test]
fn rt12_what_a_pair_has_learnt_the_next_one_knows() {
    let swift = AlgorithmConfig::Swift(SwiftConfig::default());
    let congestion = CongestionConfig { algorithm: swift, ..CongestionConfig::default() };
    let config = Config { congestion, credits: 1000, ..bound(5, false) };
    let mut pair = Pair::new(config);
    for _ in 0..2 {
        let method = pair.call(Plan::new(200 * PAYLOAD, 32));
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
    }
    let bursts = |request: usize| {
        let sent = pair.sent(Kind::Request);
        let first = sent[200 * request];
        sent[200 * request..].iter().take_while(|sent| sent.at == first.at).count()
    };
    assert_eq!(bursts(0), 8, "a link without history begins as a session does");
    assert!(bursts(1) > 32, "{}", bursts(1));
}

/// The receive queue's share is the link's: pairs come and go, and neither begin anew nor pull more
/// together.
#[test]
fn rt12_w26_pairs_of_a_link_pull_what_one_session_may() {
    let algorithm = AlgorithmConfig::Timely(TimelyConfig::default());
    let congestion = CongestionConfig { algorithm, ..CongestionConfig::default() };
    let (mut path, mut sessions) = pairs(&congestion, 64);
    let SessionParams { credits: few, room_packets: room, .. } = *sessions[0].params();
    let share = room.div_ceil(2);
    assert!(few < share);
    let begin = |session: &mut ClientSession<()>, path: &mut LinkPath| {
        bind(session, path, PAYLOAD, at(1));
        session.join(path);
        session.pull_window()
    };
    assert_eq!(begin(&mut sessions[0], &mut path), few, "nothing has come yet");
    path.take_share(2);
    (0..share).for_each(|_| path.on_arrival());
    sessions[0].share(&path);
    assert_eq!(sessions[0].pull_window(), room / 2, "it has grown to its share");
    sessions[0].fail_all();
    sessions[0].leave(&mut path);
    for count in 1..=64 {
        begin(&mut sessions[count - 1], &mut path);
        sessions[..count].iter_mut().for_each(|session| session.share(&path));
        let all: u32 = sessions[..count].iter().map(ClientSession::pull_window).sum();
        let most = (room / 2).max(count as u32);
        assert!((room / 4..=most).contains(&all), "{count} pairs: {all}");
    }
    path.leave_share();
    sessions.iter_mut().for_each(|session| session.share(&path));
    assert_eq!(sessions[5].pull_window(), 1, "or a packet each");
}

proptest! {
    /// As for other sessions: a call ends once, with the right bytes, after its handler has run
    /// once at most, whatever the network does. So does that of the next pair in the same place.
    #[test]
    fn w15_rt12_a_bound_call_ends_once_and_rightly(
        config in config(), steps in [step(), step()], first in any::<u64>(),
        is_whole in any::<[bool; 2]>(),
    ) {
        let mut pair = Pair::new(Config { slots: 1, bound: Some(Bound::default()), ..config });
        let link = pair.network.link;
        for (at, (mut step, is_whole)) in steps.into_iter().zip(is_whole).enumerate() {
            if is_whole {
                step.plan.request_bytes %= PAYLOAD + 1;
            }
            let request = first.wrapping_add(at as u64) % REQUEST_NUMBERS;
            pair.config.bound = Some(Bound { request, is_whole });
            pair.network.link = link;
            let (start, sent) = (pair.now, pair.network.log.len());
            let method = pair.call_after(step.plan, step.start_ns);
            if let Some(cancel_ns) = step.cancel_ns {
                pair.cancel_after(method, step.start_ns + cancel_ns);
            }
            pair.run_for_us(100_000);
            pair.network.heal();
            pair.run();
            let (outcome, at) = &pair.outcomes[&method];
            let elapsed_ns = at.nanos_since(start.plus_nanos(step.start_ns));
            prop_assert!(is_right(&step, outcome, elapsed_ns), "{step:?}: {outcome:?}");
            prop_assert!(pair.network.log[sent..].iter().all(|sent| sent.request == request));
            prop_assert_eq!(pair.path.sharers(), 0);
        }
    }
}
