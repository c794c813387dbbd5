//! Frames at a router's XDP program (`petasos-router-xdp`), by `BPF_PROG_TEST_RUN`: any bytes, and
//! first packets and feedback that were changed.
//!
//! What is passed on is as it was, what is sent goes to a worker and has right checksums, and
//! nobody has more than its limit. The kernel's verifier has shown that the program touches nothing
//! but frames and its tables; this is about what it decides. Its instructions are not seen by the
//! fuzzer. Loading it takes privileges: without them, the target records that it was skipped.

use std::cell::RefCell;

use petasos_wire::{Group, Packet, RoutedPacket};

use self::rig::{Became, CLIENT, PAYLOAD, Rig};
use crate::{Input, Seed};

#[allow(missing_docs, reason = "the tests of the program have it")]
#[allow(dead_code, reason = "the tests of the program use the rest")]
#[path = "../../crates/router-xdp/tests/program/rig.rs"]
pub mod rig;

const WORKERS: usize = 2;
/// The most that a worker takes.
const BOUND: u16 = 3;
/// Of Ethernet's addresses nothing is heeded, but answers go by them.
const MACS: usize = 12;
const HEADERS: usize = 42;
const STEPS_MAX: usize = 64;

thread_local! {
    /// Loading takes longer than a run.
    static RIG: RefCell<Option<Option<Rig>>> = const { RefCell::new(None) };
}

/// Steps, each of a byte that says which, and what it takes.
pub fn run(bytes: &[u8]) {
    RIG.with_borrow_mut(|rig| {
        let rig = rig.get_or_insert_with(|| self::rig::rig(self::rig::config()));
        let Some(rig) = rig else { return };
        begin(rig);
        let (mut input, mut sequence) = (Input::new(bytes), 1);
        for _ in 0..STEPS_MAX {
            if input.is_empty() {
                break;
            }
            step(rig, &mut input, &mut sequence);
            check(rig);
        }
    });
}

/// As after a start: one client, and workers that have nothing.
fn begin(rig: &Rig) {
    unpark(rig);
    while rig.program.take_returned().expect("the kernel gives it").is_some() {}
    rig.program.start(true);
    rig.program.set_above(false);
    rig.program.set_epochs([Some(0), None]);
    rig.program.attach_client(CLIENT.0, CLIENT.1, rig.client);
    (0..WORKERS).for_each(|worker| join(rig, worker));
}

fn join(rig: &Rig, worker: usize) {
    rig.program.begin_place(worker, BOUND);
    rig.program.name_place(worker, &self::rig::names(worker));
    rig.program.set_limit(worker, BOUND, 100);
    // The first one is passed on if the process that was last has said that it sleeps.
    let is_heard = || rig.feed_back(worker, 1, (0, 0), BOUND) == Became::Dropped;
    assert!(is_heard() || is_heard(), "it is known");
}

fn step(rig: &mut Rig, input: &mut Input<'_>, sequence: &mut u32) {
    match input.u8() % 8 {
        0..3 => {
            let message = vec![7; usize::from(input.u8())];
            let asked = rig.first(&message, |block| {
                block.is_claim = input.bool();
                block.number = block.number.wrapping_add(u64::from(input.u8() % 4));
                block.lifetime_us = input.bool().then_some(500_000);
            });
            let frame = rig.frame(rig.client, &asked);
            deliver(rig, frame, input);
        }
        3..6 => {
            let worker = usize::from(input.u8()) % WORKERS;
            let counts = rig.program.counts(worker);
            let (ahead, more) = (u32::from(input.u8() % 8), u32::from(input.u8() % 4));
            let received = (counts.given as u32 + more).wrapping_sub(ahead % 4) & 0xf_ffff;
            *sequence += 1;
            let told = (received, counts.told.settled + u32::from(input.u8() % 4));
            let frame = rig.told(worker, *sequence, told, input.u16() % 4096);
            deliver(rig, frame, input);
        }
        6 => {
            let mut frame = rig.frame(rig.client, &[]);
            frame.truncate(MACS);
            frame.extend_from_slice(input.short());
            // The kernel takes no shorter ones.
            frame.resize(frame.len().max(MACS + 2), 0);
            raw(rig, &frame);
        }
        _ => process(rig, input),
    }
}

/// What a router's process does with the program.
fn process(rig: &mut Rig, input: &mut Input<'_>) {
    let worker = usize::from(input.u8()) % WORKERS;
    match input.u8() % 8 {
        0 => _ = rig.program.take_slot(worker),
        1 => _ = rig.program.take_parked().expect("the kernel gives it"),
        2 => _ = rig.program.take_number(CLIENT.0, u64::from(input.u16())),
        3 => rig.program.set_epochs([Some(u16::from(input.u8() % 2)), Some(0)]),
        4 => rig.program.set_above(input.bool()),
        5 => rig.program.doze(),
        6 => rig.program.detach_client(CLIENT.0),
        _ => rig.program.attach_client(CLIENT.0, CLIENT.1, rig.client),
    }
}

/// Changes some bytes of a frame, and runs the program.
fn deliver(rig: &Rig, mut frame: Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..input.u8() % 4 {
        let at = MACS + usize::from(input.u16()) % (frame.len() - MACS);
        frame[at] ^= input.u8();
    }
    if input.u8() % 8 == 0 {
        frame.truncate(MACS + 2 + usize::from(input.u8()));
    }
    if frame.len() < HEADERS || input.u8() % 4 == 0 {
        return raw(rig, &frame);
    }
    self::rig::seal(&mut frame);
    if let Became::Sent(to, datagram) = rig.run(&frame) {
        assert!((0..WORKERS).any(|worker| self::rig::worker_address(worker) == to));
        let packet = Packet::parse(&datagram).expect("it is a packet");
        let group = Group { payload_bytes: PAYLOAD, is_sealed: false };
        let first = RoutedPacket::from_router(packet, group).expect("it is a first packet");
        assert_eq!(first.client(), CLIENT.0);
    }
}

/// Runs the program with a frame whose lengths and checksums may be wrong.
fn raw(rig: &Rig, frame: &[u8]) {
    let mut out = vec![0; frame.len() + 2048];
    let run = rig.program.run(frame, &mut out, 1).expect("the kernel takes such frames");
    assert!((1..=3).contains(&run.verdict), "{}", run.verdict);
    assert!(run.verdict != 2 || out[..frame.len()] == *frame, "it is as it was");
    // Who verifies a datagram's checksum is the worker: a wrong one would leave as such later.
    unpark(rig);
}

/// The process takes all that waits.
fn unpark(rig: &Rig) {
    while rig.program.take_parked().expect("the kernel gives it").is_some() {}
}

fn check(rig: &Rig) {
    for worker in 0..WORKERS {
        let counts = rig.program.counts(worker);
        let settled = u64::from(counts.told.settled);
        assert!(settled <= counts.given && counts.given - settled <= BOUND.into(), "{counts:?}");
        assert!(u64::from(counts.told.received) <= counts.given, "{counts:?}");
    }
    assert!(rig.program.parked() <= u64::from(rig.config.parked_max));
}

/// Requests that are given, parked and settled; bytes that are no packet; a process at work.
pub fn seeds() -> Vec<Seed> {
    let first: &[u8] = &[0, 20, 0, 0, 1, 0, 1, 1];
    let settled: &[u8] = &[3, 0, 0, 0, 1, 3, 0, 0, 1, 1];
    let raw: &[u8] = &[6, 20, 8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 7, 9, 9];
    vec![
        ("given", first.repeat(3)),
        ("parked", [&first.repeat(8)[..], &settled.repeat(4)].concat()),
        ("flipped", [first, &[0, 20, 0, 0, 1, 1, 30, 0, 4, 1, 1], settled].concat()),
        ("bytes", raw.to_vec()),
        ("process", [first, &[7, 0, 0, 7, 1, 1, 7, 0, 3, 1], first, &[7, 0, 6], first].concat()),
    ]
}
