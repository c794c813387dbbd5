//! Sessions of bound pairs (RT12), which are sessions of one slot otherwise: W14 to W26 hold.

use core::time::Duration;

use petasos_wire::{Encoding, Kind, REQUEST_NUMBERS, RejectCode};
use proptest::prelude::*;

use super::forge::FromServer;
use super::link::{Fate, bytes_of};
use super::pair::{Bound, Config, FIRST, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};
use super::property::{config, is_right, step};
use crate::{Binding, Call, CallOptions, ClientSession, CongestionConfig, LinkTimes, TimerConfig};

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
        assert_eq!(pair.runs[0], 0);
    }
}

#[test]
fn rt12_the_times_of_a_link_are_handed_on() {
    let mut pair = Pair::new(bound(5, false));
    pair.call(Plan::new(32, 32));
    pair.run();
    let times = pair.client.times();
    assert!(times.rtt_ns().is_some());
    let options = CallOptions {
        method: 0,
        encoding: Encoding::Opaque,
        request_bytes: 32,
        response_bytes_max: 32,
        timeout_at: petasos_base::Time::NEVER,
    };
    let session = |times| {
        let binding = Binding { request: 9, is_whole: false, credits: Some(3) };
        let (params, congestion) = (*pair.client.params(), CongestionConfig::none());
        let call = Call { options, context: () };
        ClientSession::of_pair(params, &congestion, times, binding, call, pair.now)
    };
    let (with, without) = (session(times), session(LinkTimes::new(&TimerConfig::default())));
    assert_eq!((with.rtt_ns(), without.rtt_ns()), (times.rtt_ns(), None));
    assert!(with.rto_ns(0) < without.rto_ns(0) && with.timer_ns() == with.rto_ns(0));
    assert_eq!(with.window(), 3, "what ready has granted");
}

#[test]
fn w26_what_ready_has_granted_lapses() {
    let mut pair = Pair::new(Config { credits_max: 64, ..bound(5, true) });
    pair.call(Plan::new(32, 32).after_us(100_000));
    pair.run_for_us(1);
    let options = CallOptions {
        method: 0,
        encoding: Encoding::Opaque,
        request_bytes: 32,
        response_bytes_max: 32,
        timeout_at: petasos_base::Time::NEVER,
    };
    let binding = Binding { request: 9, is_whole: false, credits: Some(1000) };
    let (params, congestion) = (*pair.client.params(), CongestionConfig::none());
    let (times, call) = (LinkTimes::new(&TimerConfig::default()), Call { options, context: () });
    let mut session = ClientSession::of_pair(params, &congestion, times, binding, call, pair.now);
    assert_eq!(session.window(), 64, "no more than both ends ever allow");
    session.handle_timeout(pair.now + Duration::from_millis(7));
    assert_eq!(session.window(), 64);
    session.handle_timeout(pair.now + Duration::from_millis(8));
    assert_eq!(session.window(), 32);
}

proptest! {
    /// As for other sessions: a call ends once, with the right bytes, after its handler has run
    /// once at most, whatever the network does.
    #[test]
    fn w15_rt12_a_bound_call_ends_once_and_rightly(
        config in config(), mut step in step(), request in any::<u64>(), is_whole in any::<bool>(),
    ) {
        let request = request % REQUEST_NUMBERS;
        if is_whole {
            step.plan.request_bytes %= PAYLOAD + 1;
        }
        let config = Config { slots: 1, bound: Some(Bound { request, is_whole }), ..config };
        let mut pair = Pair::new(config);
        let start = pair.now;
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
        prop_assert!(pair.network.log.iter().all(|sent| sent.request == request));
    }
}
