//! Feedback.

use petasos_wire::{GIVEN_NUMBERS, SETTLED_NUMBERS, TRANSMISSION_NUMBERS};

use crate::rig::{Became, config, rig};

/// RT22: counts that are newer and can be are heeded; others are the process's to count.
#[test]
fn rt22_feedback_that_is_not_newer_or_cannot_be_is_passed_on() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 8);
    (0..5).for_each(|_| assert!(matches!(rig.ask(b"x"), Became::Sent(..))));
    let half = TRANSMISSION_NUMBERS / 2;
    for (sequence, received, settled, n, is_heeded) in [
        (2, 3, 1, 8, true),
        (2, 3, 2, 8, false),
        (1, 3, 2, 8, false),
        (3, 2, 1, 8, false),
        (3, 3, 0, 8, false),
        (3, 3, 4, 8, false),
        (3, 6, 4, 8, false),
        (3, GIVEN_NUMBERS - 1, 4, 8, false),
        (3, 3, SETTLED_NUMBERS - 1, 8, false),
        (2 + half, 4, 2, 8, false),
        (1 + half, 4, 2, 8, true),
        (1 + half + 1, 5, 5, 0, true),
    ] {
        let before = rig.program.counts(0);
        let became = rig.feed_back(0, sequence, (received, settled), n);
        let expected = if is_heeded { Became::Dropped } else { Became::Passed };
        assert_eq!(became, expected, "{sequence} {received} {settled}");
        let told = rig.program.counts(0).told;
        if is_heeded {
            let heard = (told.sequence, told.received, told.settled, told.bound);
            assert_eq!(heard, (sequence, received, settled, n));
        } else {
            assert_eq!(rig.program.counts(0), before);
        }
    }
    assert_eq!(rig.ask(b"it has announced that it takes none"), Became::Dropped);
    assert_eq!(rig.program.parked(), 1);
}

/// RT20, RT22: each bit of the packet, and of where it comes from.
#[test]
fn rt22_feedback_of_strangers_frees_nothing() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 1);
    rig.join(1, 1);
    assert!(matches!(rig.ask(b"x"), Became::Sent(..)));
    assert!(matches!(rig.ask(b"x"), Became::Sent(..)));
    let told = rig.told(0, 2, (1, 1), 1);
    for bit in 0..13 * 8 {
        // Word 0, and the secret bits.
        let mut datagram = told[42..].to_vec();
        datagram[bit / 8] ^= 1 << (bit % 8);
        let frame = rig.frame(crate::rig::worker_address(0), &datagram);
        assert_eq!(rig.run(&frame), Became::Passed, "bit {bit}");
    }
    let failed = {
        let mut datagram = told[42..].to_vec();
        datagram[18] |= 0x10;
        rig.frame(crate::rig::worker_address(0), &datagram)
    };
    assert_eq!(rig.run(&failed), Became::Passed, "failures are for the plane to judge");
    for source in [crate::rig::worker_address(1), rig.client] {
        assert_eq!(rig.run(&rig.frame(source, &told[42..])), Became::Passed);
    }
    let longer = rig.frame(crate::rig::worker_address(0), &[&told[42..], &[0]].concat());
    assert_eq!(rig.run(&longer), Became::Passed, "it has a payload");
    for byte in 40..66 {
        let mut damaged = told.clone();
        damaged[byte] ^= 4;
        assert_eq!(rig.run(&damaged), Became::Passed, "the checksum is wrong");
    }
    assert_eq!(rig.program.counts(0).told.settled, 0);
    rig.program.set_limit(0, 0, 100);
    assert_eq!(rig.run(&told), Became::Passed, "the process judges who gets nothing");
    rig.program.set_limit(0, 1, 100);
    assert_eq!(rig.run(&told), Became::Dropped);
    rig.program.end_place(1);
    assert_eq!(rig.feed_back(1, 2, (1, 1), 1), Became::Passed, "it has gone");
}

/// Counters wrap as the protocol's numbers do.
#[test]
fn rt19_numbers_and_counts_wrap() {
    let Some(mut rig) = rig(config()) else { return };
    // As after 2^28 requests less one.
    let start = u64::from(SETTLED_NUMBERS) - 1;
    rig.program.begin_place_at(0, 2, start);
    rig.program.name_place(0, &crate::rig::names(0));
    rig.program.set_limit(0, 2, 100);
    let received = (start % u64::from(GIVEN_NUMBERS)) as u32;
    assert_eq!(rig.feed_back(0, 1, (received, start as u32), 2), Became::Dropped);
    for (sequence, last) in [(2u32, 1u64), (3, 2), (4, 3)] {
        let asked = rig.first(b"x", |_| {});
        let sent = rig.run(&rig.frame(rig.client, &asked));
        let number = (start + last) % u64::from(GIVEN_NUMBERS);
        assert_eq!(u64::from(crate::rig::given(&sent, 0, &asked)), number);
        let settled = ((start + last) % u64::from(SETTLED_NUMBERS)) as u32;
        let became = rig.feed_back(0, sequence, (number as u32, settled), 2);
        assert_eq!(became, Became::Dropped);
        assert_eq!(rig.program.counts(0).told.settled, settled);
    }
}

/// The next hop of a worker is where its feedback comes from; before that it is the process's.
#[test]
fn a_worker_that_was_not_heard_is_given_nothing() {
    let Some(mut rig) = rig(config()) else { return };
    rig.program.begin_place(0, 4);
    rig.program.name_place(0, &crate::rig::names(0));
    rig.program.set_limit(0, 4, 100);
    assert_eq!(rig.ask(b"x"), Became::Dropped, "it waits");
    assert_eq!(rig.program.take_slot(0), Some(1), "the process may give it");
    assert!(matches!(rig.feed_back(0, 1, (1, 1), 4), Became::Sent(..)), "what waits");
    assert!(rig.program.knows(0));
}
