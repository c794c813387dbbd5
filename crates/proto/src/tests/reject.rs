use petasos_wire::{Kind, RejectCode};

use super::forge::FromServer;
use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Answer, Outcome, Plan};

const CODES: [RejectCode; 11] = [
    RejectCode::UnknownMethod,
    RejectCode::TooLarge,
    RejectCode::Overloaded,
    RejectCode::Draining,
    RejectCode::HandlerFailed,
    RejectCode::Declined,
    // For requests to groups; whoever gets one elsewhere hears it all the same.
    RejectCode::Again,
    RejectCode::QueueFull,
    RejectCode::Expired,
    RejectCode::NoWorker,
    RejectCode::UnknownPolicy,
];

#[test]
fn w22_every_code_reaches_the_caller() {
    for code in CODES {
        for bytes in [32, 5 * PAYLOAD] {
            let mut pair = Pair::plain();
            let method = pair.call(Plan::new(bytes, 32).answered(Answer::Reject(code)));
            pair.run();
            assert_eq!(pair.outcome(method), Outcome::Rejected(Some(code)));
            assert_eq!(pair.kinds().last(), Some(&Kind::Reject));
        }
    }
}

#[test]
fn w15_w22_a_lost_rejection_is_repeated_without_running_the_handler() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Reject, 0..2, Fate::Lost);
    let method = pair.call(Plan::new(32, 32).answered(Answer::Reject(RejectCode::Declined)));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Rejected(Some(RejectCode::Declined)));
    assert_eq!(pair.sent(Kind::Reject).len(), 3);
    assert_eq!(pair.runs, [1]);
}

#[test]
fn w22_a_request_over_the_limit_is_rejected_at_its_first_packet() {
    for bytes in [101, PAYLOAD, 5 * PAYLOAD] {
        let mut pair = Pair::new(Config { request_bytes_max: 100, ..Config::default() });
        pair.network.doom(Kind::Reject, 0..1, Fate::Lost);
        let method = pair.call(Plan::new(bytes, 32));
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Rejected(Some(RejectCode::TooLarge)));
        assert_eq!(pair.runs, [0]);
    }
}

#[test]
fn w22_a_server_without_room_rejects_and_can_serve_later() {
    let mut pair = Pair::new(Config { slots: 1, room: false, ..Config::default() });
    let refused = pair.call(Plan::new(5 * PAYLOAD, 32));
    pair.run();
    assert_eq!(pair.outcome(refused), Outcome::Rejected(Some(RejectCode::Overloaded)));
    pair.config.room = true;
    let served = pair.call(Plan::new(5 * PAYLOAD, 32));
    pair.run();
    assert_eq!(pair.outcome(served), Outcome::Answered);
}

#[test]
fn w22_an_unassigned_code_is_still_a_rejection() {
    let mut pair = Pair::plain();
    let method = pair.call(Plan::new(32, 32).after_us(100));
    pair.run_for_us(10);
    pair.forge_to_client(&FromServer::new(Kind::Reject, 8, 77));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Rejected(None));
}

#[test]
fn w22_codes_are_their_values() {
    for code in CODES {
        assert_eq!(RejectCode::from_value(code as u32), Some(code));
    }
    assert_eq!(RejectCode::from_value(0), None);
    assert_eq!(RejectCode::from_value(12), None);
}
