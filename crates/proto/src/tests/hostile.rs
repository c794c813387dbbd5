//! Packets with the right tags and arbitrary contents, mixed with honest calls.

use std::rc::Rc;

use petasos_wire::Kind;
use proptest::prelude::*;

use super::forge::{FromClient, FromServer};
use super::pair::{Config, PAYLOAD, Pair};
use super::property::{Step, config, step};

fn kind(range: std::ops::Range<u8>) -> impl Strategy<Value = Kind> {
    range.prop_map(|bits| Kind::from_bits(bits).expect("all but 0 are assigned"))
}

/// Numbers near those in use, so that some packets meet a call, and arbitrary ones.
fn request() -> impl Strategy<Value = u64> {
    prop_oneof![5 => 0u64..64, 1 => any::<u64>().prop_map(|number| number >> 24)]
}

fn field() -> impl Strategy<Value = u32> {
    let max = petasos_wire::MESSAGE_BYTES_MAX;
    prop_oneof![0u32..4, 0u32..100, 0..PAYLOAD * 4, 0..=max, Just(max)]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let exact = PAYLOAD as usize;
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        any::<u8>().prop_map(move |byte| vec![byte; exact]),
        any::<u8>().prop_map(move |byte| vec![byte; exact + 1]),
        any::<u8>().prop_map(|byte| vec![byte; 128]),
    ]
}

/// A client's packet; half of them agree with themselves, so that they get past the first check.
fn from_client() -> impl Strategy<Value = FromClient> {
    let kinds = prop_oneof![kind(1..5), kind(1..16), Just(Kind::Request)];
    (kinds, request(), field(), field(), any::<u16>(), payload(), any::<bool>()).prop_map(
        |(kind, request, start, end, method, payload, agrees)| {
            let forged = FromClient { kind, request, start, end, method: method % 64, payload };
            if !agrees || kind != Kind::Request {
                return forged;
            }
            let start = start % end.div_ceil(PAYLOAD).max(1);
            let bytes = (end - start * PAYLOAD).min(PAYLOAD) as usize;
            FromClient { start, ..forged }.with_payload(bytes)
        },
    )
}

/// A server's packet; half of the responses agree with themselves.
fn from_server() -> impl Strategy<Value = FromServer> {
    let kinds = prop_oneof![kind(8..12), kind(1..16), Just(Kind::Response)];
    let fields = (any::<u32>(), field(), any::<u32>(), any::<bool>());
    (kinds, request(), fields, payload(), any::<bool>()).prop_map(
        |(kind, request, (echo, value, credits, later), payload, agrees)| {
            let forged = FromServer { kind, request, echo, value, credits, later, payload };
            let reset = kind == Kind::Reset && !agrees;
            let forged = if reset { FromServer { kind: Kind::Ack, ..forged } } else { forged };
            if !agrees || kind != Kind::Response {
                return forged;
            }
            let bytes = if later { PAYLOAD } else { value.min(PAYLOAD) };
            forged.with_payload(bytes as usize)
        },
    )
}

#[derive(Clone, Debug)]
enum Forged {
    ToServer(FromClient),
    ToClient(FromServer),
}

fn forged() -> impl Strategy<Value = Forged> {
    prop_oneof![from_client().prop_map(Forged::ToServer), from_server().prop_map(Forged::ToClient)]
}

/// Whatever arrives, every call has to end, and only its timeout is sure to end it.
fn with_timeout(mut step: Step) -> Step {
    step.plan.timeout_ns = step.plan.timeout_ns.or(Some(100_000_000));
    step
}

proptest! {
    /// Nothing panics, no more memory is taken than agreed, every call ends exactly once, and
    /// credits and buffers are conserved; the harness checks all this at each turn.
    #[test]
    fn w3_w24_forged_packets_break_no_invariant(
        config in config(),
        steps in prop::collection::vec(step().prop_map(with_timeout), 1..20),
        forged in prop::collection::vec((0u64..12_000_000, forged()), 0..200),
    ) {
        let limits = Config { hostile: true, request_bytes_max: 40 * PAYLOAD, ..config };
        let mut pair = Pair::new(limits);
        let start = pair.now;
        for step in &steps {
            let method = pair.call_after(step.plan, step.start_ns);
            if let Some(cancel_ns) = step.cancel_ns {
                pair.cancel_after(method, step.start_ns + cancel_ns);
            }
        }
        for (delay_ns, packet) in &forged {
            let bytes = match packet {
                Forged::ToServer(packet) => packet.to_bytes(),
                Forged::ToClient(packet) => packet.to_bytes(),
            };
            // Some kinds are meant for the other half; each half must bear all of them.
            pair.network.deliver(bytes, start, *delay_ns);
        }
        pair.run();
        prop_assert_eq!(pair.client.in_flight(), 0);
        let buffers = Rc::strong_count(&pair.living) - 1;
        let kept = pair.server.into_kept().flatten().count();
        prop_assert_eq!(kept, buffers, "every buffer comes back");
    }

    /// Each half also bears every kind that only the other may receive.
    #[test]
    fn w3_w24_each_half_drops_what_only_the_other_receives(
        to_server in from_server(), to_client in from_client(),
    ) {
        let mut pair = Pair::new(Config { hostile: true, ..Config::default() });
        pair.server_packet(&FromClient {
            kind: to_server.kind,
            ..FromClient::bare(Kind::Request, to_server.request, 0, 5)
        }.to_bytes());
        let strange = to_server.kind.from_server() || to_server.kind as u8 > 4;
        prop_assert!(!strange || pair.server.stats().inconsistent == 1);
        pair.client_packet(&FromServer {
            kind: to_client.kind,
            ..FromServer::new(Kind::Ack, to_client.request, 5)
        }.to_bytes());
        prop_assert_eq!(pair.client.stats().calls_completed, 0);
    }
}

#[test]
fn w24_reserved_kinds_are_dropped_and_counted() {
    let mut pair = Pair::plain();
    let method = pair.call(super::plan::Plan::new(32, 32).after_us(100));
    pair.run_for_us(50);
    for kind in [Kind::Routed, Kind::ClientStream, Kind::ClientWindow] {
        pair.forge_to_server(&FromClient::bare(kind, 8, 0, 0));
    }
    assert_eq!(pair.server.stats().inconsistent, 3);
    for kind in [Kind::Ready, Kind::Feedback, Kind::ServerStream, Kind::ServerWindow] {
        pair.forge_to_client(&FromServer::new(kind, 8, 0));
    }
    assert_eq!(pair.client.stats().inconsistent, 4);
    pair.run();
    assert_eq!(pair.outcome(method), super::plan::Outcome::Answered);
}
