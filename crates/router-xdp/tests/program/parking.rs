//! Requests that wait in the kernel.

use core::time::Duration;

use petasos_router_xdp::ProgramConfig;
use petasos_wire::Packet;

use crate::rig::{Became, config, given, rig};

/// RT24: who came first goes first, in the frame of the feedback that has freed a slot.
#[test]
fn rt24_feedback_takes_who_has_waited_longest_along() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 1);
    let asked: Vec<Vec<u8>> =
        (0..5u16).map(|at| rig.first(&vec![at as u8; 1 + 250 * usize::from(at)], |_| {})).collect();
    let frames: Vec<_> = asked.iter().map(|asked| rig.frame(rig.client, asked)).collect();
    assert_eq!(given(&rig.run(&frames[0]), 0, &asked[0]), 1);
    for frame in &frames[1..] {
        assert_eq!(rig.run(frame), Became::Dropped);
    }
    assert_eq!(rig.program.parked(), 4);
    let more = rig.first(b"the queue is full", |_| {});
    assert_eq!(rig.run(&rig.frame(rig.client, &more)), Became::Passed);
    assert_eq!(rig.run(&frames[2]), Became::Passed, "its number was taken");
    for (at, asked) in asked.iter().enumerate().skip(1) {
        let (sequence, done) = (at as u32 + 1, at as u32);
        let sent = rig.feed_back(0, sequence, (done, done), 1);
        assert_eq!(given(&sent, 0, asked), done + 1);
    }
    assert_eq!(rig.feed_back(0, 6, (5, 5), 1), Became::Dropped, "nothing waits");
    let stats = rig.program.stats();
    assert_eq!((stats.given, stats.parked, stats.unparked), (1, 4, 4));
    assert_eq!(rig.program.parked(), 0);
}

/// RT6: what it has waited is taken off.
#[test]
fn rt6_the_wait_is_taken_off_the_time_left() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 1);
    assert!(matches!(rig.ask(b"x"), Became::Sent(..)));
    let left = 2_000_000_000;
    for lifetime_us in [Some(left), None] {
        let asked = rig.first(b"y", |block| block.lifetime_us = lifetime_us);
        assert_eq!(rig.run(&rig.frame(rig.client, &asked)), Became::Dropped);
    }
    std::thread::sleep(Duration::from_millis(2));
    let lifetime = |became: Became| {
        let Became::Sent(_, datagram) = became else { panic!("it is sent") };
        u32::from_le_bytes(datagram[56..60].try_into().expect("it has four"))
    };
    let first = lifetime(rig.feed_back(0, 2, (1, 1), 1));
    assert!((left / 2..=left - 2000).contains(&first), "{first}");
    assert_eq!(lifetime(rig.feed_back(0, 3, (2, 2), 1)), u32::MAX, "no limit stays none");
}

/// RT24: what is too old, or expired, comes back for the process to reject.
#[test]
fn what_is_too_old_or_expired_is_handed_back() {
    let config = ProgramConfig { age_max: Duration::from_millis(500), ..config() };
    let Some(mut rig) = rig(config) else { return };
    rig.join(0, 1);
    assert!(matches!(rig.ask(b"x"), Became::Sent(..)));
    let expired = rig.first(b"expired", |block| block.lifetime_us = Some(1));
    let fresh = rig.first(b"fresh", |_| {});
    for asked in [&expired, &fresh] {
        assert_eq!(rig.run(&rig.frame(rig.client, asked)), Became::Dropped);
    }
    std::thread::sleep(Duration::from_millis(1));
    given(&rig.feed_back(0, 2, (1, 1), 1), 0, &fresh);
    let returned = rig.program.take_returned().expect("the kernel gives it").expect("it is there");
    assert_eq!(returned.bytes, expired);
    assert!(returned.waited >= Duration::from_millis(1));
    let old = rig.first(b"old", |_| {});
    assert_eq!(rig.run(&rig.frame(rig.client, &old)), Became::Dropped);
    std::thread::sleep(Duration::from_millis(501));
    assert_eq!(rig.feed_back(0, 3, (2, 2), 1), Became::Dropped);
    let returned = rig.program.take_returned().expect("the kernel gives it").expect("it is there");
    assert_eq!(returned.bytes, old);
    assert_eq!(rig.program.take_returned().expect("the kernel says so"), None);
    assert_eq!(rig.program.stats().returned, 2);
}

/// More than one slot is free, and there is one frame: the process is woken, and takes the rest.
#[test]
fn feedback_that_frees_several_slots_is_passed_on_while_several_wait() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 2);
    (0..2).for_each(|_| assert!(matches!(rig.ask(b"x"), Became::Sent(..))));
    let asked: Vec<Vec<u8>> = (0..3).map(|at| rig.first(&[at], |_| {})).collect();
    for asked in &asked {
        assert_eq!(rig.run(&rig.frame(rig.client, asked)), Became::Dropped);
    }
    assert_eq!(rig.feed_back(0, 2, (2, 2), 2), Became::Passed);
    assert_eq!(rig.program.counts(0).told.settled, 2, "it was heeded all the same");
    for (asked, number) in asked.iter().take(2).zip(3..) {
        let parked = rig.program.take_parked().expect("the kernel gives it").expect("it waits");
        assert_eq!(parked.bytes, *asked);
        assert!(Packet::parse(&parked.bytes).is_ok());
        assert_eq!(rig.program.take_slot(0), Some(number));
    }
    assert_eq!((rig.program.take_slot(0), rig.program.parked()), (None, 1));
    assert_eq!(rig.program.take_probe(0), 5, "a probe may be beyond n");
}

/// A slot becomes free by the process's hand, and the next first packet finds others before it.
#[test]
fn a_first_packet_lets_who_has_waited_longer_go_first() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 1);
    assert!(matches!(rig.ask(b"x"), Became::Sent(..)));
    let earlier = rig.first(&[1; 700], |_| {});
    assert_eq!(rig.run(&rig.frame(rig.client, &earlier)), Became::Dropped);
    // *n* is 2 now, and it has settled nothing.
    rig.program.set_limit(0, 2, 100);
    let before = rig.program.counts(0).told;
    let told = petasos_wire::WorkerCounts { sequence: 2, bound: 2, ..before };
    assert!(rig.program.tell(0, &before, &told, 0));
    let later = rig.first(b"y", |_| {});
    let sent = rig.run(&rig.frame(rig.client, &later));
    assert_eq!(given(&sent, 0, &earlier), 2);
    assert_eq!(rig.program.parked(), 1);
}

#[test]
fn what_is_too_long_to_be_parked_is_passed_on() {
    let config = ProgramConfig { payload_bytes: 1400 + 64, ..config() };
    let Some(mut rig) = rig(config) else { return };
    rig.join(0, 1);
    let longest = rig.first(&[1; 1464], |_| {});
    assert!(matches!(rig.run(&rig.frame(rig.client, &longest)), Became::Sent(..)));
    let longest = rig.first(&[1; 1536 - 64 - 42], |_| {});
    assert_eq!(rig.run(&rig.frame(rig.client, &longest)), Became::Dropped);
    let longer = rig.first(&[1; 1537 - 64 - 42], |_| {});
    assert_eq!(rig.run(&rig.frame(rig.client, &longer)), Became::Passed);
    assert!(matches!(rig.feed_back(0, 2, (1, 1), 1), Became::Sent(..)));
}
