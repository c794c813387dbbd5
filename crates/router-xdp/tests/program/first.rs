//! First packets.

use petasos_wire::{FIRST_BYTES, RoutePolicy, SEAL_BYTES};

use crate::rig::{Became, CLIENT, PAYLOAD, config, given, rig, seal, worker_address};

/// RT1, RT19: with the worker's names and the next number, and a checksum that is right.
#[test]
fn rt1_first_packets_go_to_workers_with_their_names_and_numbers() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 100);
    for (at, bytes) in [0, 1, 2, 63, 64, 65, 999, PAYLOAD as usize].into_iter().enumerate() {
        let message: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        let asked = rig.first(&message, |block| block.lifetime_us = Some(500));
        let sent = rig.run(&rig.frame(rig.client, &asked));
        assert_eq!(given(&sent, 0, &asked), at as u32 + 1, "{bytes} bytes");
        let Became::Sent(_, datagram) = sent else { panic!("it is sent") };
        assert_eq!(datagram[56..60], 500u32.to_le_bytes(), "it has not waited");
    }
    assert_eq!(rig.program.stats().given, 8);
    assert_eq!(rig.program.counts(0).given, 8);
}

#[test]
fn a_datagram_without_a_checksum_stays_without_one() {
    let Some(mut rig) = rig(crate::rig::config()) else { return };
    rig.join(0, 1);
    let asked = rig.first(b"x", |_| {});
    let mut frame = rig.frame(rig.client, &asked);
    frame[40..42].fill(0);
    let mut out = vec![0; 2048];
    let run = rig.program.run(&frame, &mut out, 1).expect("the kernel takes such frames");
    assert_eq!((run.verdict, &out[40..42]), (3, &[0, 0][..]));
}

/// Of virtual interfaces of the same host: what is there is no checksum.
#[test]
fn partial_checksums_are_not_heeded_and_leave_as_none() {
    let Some(mut rig) =
        rig(petasos_router_xdp::ProgramConfig { partial_checksums: true, ..config() })
    else {
        return;
    };
    rig.join(0, 2);
    let asked = rig.first(b"x", |_| {});
    let mut frame = rig.frame(rig.client, &asked);
    frame[40] ^= 0x55;
    assert_eq!(given(&rig.run(&frame), 0, &asked), 1);
    let mut told = rig.told(0, 2, (1, 1), 2);
    told[40] ^= 0x55;
    assert_eq!(rig.run(&told), Became::Dropped);
    assert_eq!(rig.program.counts(0).told.settled, 1);
}

/// RT3: each number once, in any order, of the 1024 highest.
#[test]
fn rt3_numbers_are_taken_once_each() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 100);
    let mut ask = |number: u64| {
        let asked = rig.first(b"x", |block| block.number = number);
        matches!(rig.run(&rig.frame(rig.client, &asked)), Became::Sent(..))
    };
    let far = (1 << 39) + 5;
    for (number, is_new) in [
        (0, false),
        (2, true),
        (1, true),
        (2, false),
        (1026, true),
        (2, false),
        (3, true),
        (1, false),
        (far, true),
        (far, false),
        (1026, false),
        (far - 1023, true),
        (far - 1024, false),
        (far - 1, true),
    ] {
        assert_eq!(ask(number), is_new, "{number}");
    }
    // The process takes numbers from the same window.
    assert_eq!(rig.program.take_number(CLIENT.0, far), Some(false));
    assert_eq!(rig.program.take_number(CLIENT.0, far + 1), Some(true));
    let asked = rig.first(b"x", |block| block.number = far + 1);
    assert_eq!(rig.run(&rig.frame(rig.client, &asked)), Became::Passed);
    assert_eq!(rig.program.take_number(8, 1), None, "the program does not have that one");
}

/// RT24: what has to be judged otherwise, or rejected, is the process's.
#[test]
fn what_the_program_may_not_decide_is_passed_on_as_it_was() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 100);
    type Change = fn(&mut petasos_wire::RoutingBlock);
    let changes: [Change; 7] = [
        |block| block.policy = RoutePolicy::Primary,
        |block| block.policy = RoutePolicy::Hash,
        |block| block.policy = RoutePolicy::Probe,
        |block| block.priority = 1,
        |block| block.epoch = 1,
        |block| block.lifetime_us = Some(0),
        |block| block.client = 2,
    ];
    for change in changes {
        let asked = rig.first(b"x", change);
        assert_eq!(rig.run(&rig.frame(rig.client, &asked)), Became::Passed);
    }
    rig.program.set_epochs([Some(1), Some(0)]);
    assert!(matches!(rig.ask(b"the one before"), Became::Sent(..)));
    rig.program.set_above(true);
    assert_eq!(rig.ask(b"others wait"), Became::Passed);
    rig.program.set_above(false);
    rig.program.doze();
    assert_eq!(rig.ask(b"it wakes the process"), Became::Passed);
    assert!(matches!(rig.ask(b"once"), Became::Sent(..)));
    rig.program.start(false);
    assert_eq!(rig.ask(b"it is not started"), Became::Passed);
    rig.program.start(true);
    rig.program.detach_client(CLIENT.0);
    assert_eq!(rig.ask(b"nobody's"), Became::Passed);
    assert_eq!(rig.program.counts(0).given, 2);
}

/// RT26.
#[test]
fn rt26_first_packets_come_from_where_their_client_has_attached() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 100);
    let asked = rig.first(b"x", |_| {});
    let (ip, port) = (*rig.client.ip(), rig.client.port());
    for elsewhere in [(ip, port + 1), ([10, 0, 0, 8].into(), port)] {
        let source = std::net::SocketAddrV4::new(elsewhere.0, elsewhere.1);
        assert_eq!(rig.run(&rig.frame(source, &asked)), Became::Passed);
        let reply = rig.first(b"x", |block| block.reply = source.into());
        assert_eq!(rig.run(&rig.frame(rig.client, &reply)), Became::Passed);
    }
    given(&rig.run(&rig.frame(rig.client, &asked)), 0, &asked);
}

/// RT4, RT8, RT27: lengths, plain and sealed.
#[test]
fn rt4_packets_of_another_length_are_passed_on() {
    for is_sealed in [false, true] {
        let config = petasos_router_xdp::ProgramConfig { is_sealed, ..config() };
        let Some(mut rig) = rig(config) else { return };
        rig.join(0, 100);
        let seal = if is_sealed { SEAL_BYTES } else { 0 };
        for (is_claim, message, body, is_right) in [
            (false, 100, 100, true),
            (false, 100, 101, true),
            (false, 100, 99, false),
            (false, 0, 0, true),
            (false, 1025, 1024, false),
            (false, 10, 1025, false),
            (true, 5000, 64, true),
            (true, 5000, 63, false),
            (true, 10, 10, true),
            (true, 10, 9, false),
        ] {
            let mut asked = rig.first(&vec![1; message], |block| block.is_claim = is_claim);
            asked.resize(FIRST_BYTES + body + seal, 7);
            // The flag of a checksum.
            asked[1] |= if is_sealed { 0x10 } else { 0 };
            let became = rig.run(&rig.frame(rig.client, &asked));
            assert_eq!(became != Became::Passed, is_right, "{is_claim} {message} {body}");
            asked[1] ^= 0x10;
            asked[32 + 22] ^= 1;
            assert_eq!(rig.run(&rig.frame(rig.client, &asked)), Became::Passed, "the other form");
        }
    }
}

/// Each bit of the headers, and each length: nothing is sent that should not be, and what is passed
/// on is as it was.
#[test]
fn altered_headers_and_cut_frames_are_passed_on() {
    let Some(mut rig) = rig(config()) else { return };
    rig.join(0, 4095);
    let asked = rig.first(&[7; 100], |_| {});
    let whole = rig.frame(rig.client, &asked);
    // Of Ethernet's addresses nothing is heeded, nor of the class and the identification; the
    // router is not the one to verify a datagram's checksum.
    let heeded = [12..15, 16..18, 20..22, 23..40].into_iter().flatten();
    for byte in heeded {
        for bit in 0..8 {
            let mut frame = whole.clone();
            frame[byte] ^= 1 << bit;
            if byte == 20 && bit >= 6 {
                // Do not fragment, and the reserved bit: the kernel does not mind either.
                continue;
            }
            if byte < 34 && !(24..26).contains(&byte) {
                // As if it had been sent so.
                let sums = (frame[16..18].to_vec(), frame[38..40].to_vec());
                seal(&mut frame);
                frame[16..18].copy_from_slice(&sums.0);
                frame[38..40].copy_from_slice(&sums.1);
            }
            assert_eq!(rig.run(&frame), Became::Passed, "byte {byte} bit {bit}");
        }
    }
    for len in 14..whole.len() {
        assert_eq!(rig.run(&whole[..len]), Became::Passed, "{len} bytes");
        let longer = [&whole[..], &vec![0; len]].concat();
        assert_eq!(rig.run(&longer), Became::Passed, "{len} bytes more");
    }
    assert_eq!(rig.program.counts(0).given, 0);
    given(&rig.run(&whole), 0, &asked);
}

/// JBSQ: who has the least, at random among equals, nobody above *n*, and by weight.
#[test]
fn who_has_the_least_is_given_the_next() {
    let Some(mut rig) = rig(petasos_router_xdp::ProgramConfig { parked_max: 1, ..config() }) else {
        return;
    };
    const WORKERS: usize = 16;
    let mut firsts = [0u32; WORKERS];
    for _ in 0..40 {
        (0..WORKERS).for_each(|worker| rig.join(worker, 3));
        for round in 1..=3u64 {
            let mut order = Vec::new();
            for _ in 0..WORKERS {
                let Became::Sent(to, _) = rig.ask(b"x") else { panic!("there are free slots") };
                let is_to = |worker: &usize| worker_address(*worker) == to;
                order.extend((0..WORKERS).find(is_to));
            }
            firsts[order[0]] += 1;
            order.sort_unstable();
            assert_eq!(order, (0..WORKERS).collect::<Vec<_>>(), "each has {round}");
        }
        assert_eq!(rig.ask(b"it is parked"), Became::Dropped);
        assert_eq!(rig.ask(b"nor is there room"), Became::Passed);
        rig.program.take_parked().expect("the kernel gives it").expect("there is one");
    }
    // 120 draws of one of 16: that fewer than 12 were drawn, or one 25 times, has odds of 10^-6.
    assert!(firsts.iter().filter(|times| **times > 0).count() >= 12, "{firsts:?}");
    assert!(firsts.iter().all(|times| *times < 25), "{firsts:?}");
    (0..2).for_each(|worker| rig.join(worker, 100));
    (2..WORKERS).for_each(|worker| rig.program.set_limit(worker, 0, 100));
    rig.program.set_limit(0, 100, 25);
    (0..50).for_each(|_| assert!(matches!(rig.ask(b"x"), Became::Sent(..))));
    assert_eq!([0, 1].map(|worker| rig.program.counts(worker).given), [10, 40]);
}
