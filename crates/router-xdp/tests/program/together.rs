//! The program on several processors, and the process, at the same time.

use petasos_base::Rng;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_wire::{GIVEN_NUMBERS, Packet, SETTLED_NUMBERS};

use crate::rig::{Became, Rig, config, rig, worker_address};

const WORKERS: usize = 2;
const BOUND: u16 = 3;
/// Of each of two who send. Together fewer than a client's window has (RT3).
const PACKETS: usize = 500;
/// How often a packet is sent at most.
const TRIES_MAX: u32 = 1_000_000;
/// Slots that the process takes.
const TAKEN: usize = 200;

/// The worker and the number of what was sent.
fn sent(became: Became) -> Option<(usize, u64)> {
    let Became::Sent(address, datagram) = became else { return None };
    let packet = Packet::parse(&datagram).expect("it is a packet");
    let worker = (0..WORKERS).find(|worker| worker_address(*worker) == address);
    Some((worker.expect("it goes to a worker"), packet.packet_index().into()))
}

/// Settles at random until all is done, and checks that nobody has more than may be.
fn settle(rig: &Rig, is_done: &AtomicBool) -> Vec<(usize, u64)> {
    let (mut rng, mut all) = (Rng::new(9), Vec::new());
    let mut told = [(1u32, 0u64); WORKERS];
    let mut last_rounds = 100;
    while last_rounds > 0 {
        last_rounds -= usize::from(is_done.load(Ordering::Acquire));
        for (worker, (sequence, settled)) in told.iter_mut().enumerate() {
            let given = rig.program.counts(worker).given;
            assert!(given - *settled <= BOUND.into(), "{given} and {settled}");
            *settled += rng.below(given - *settled + 1);
            *sequence += 1;
            let received = (given % u64::from(GIVEN_NUMBERS)) as u32;
            let counts = (received, (*settled % u64::from(SETTLED_NUMBERS)) as u32);
            all.extend(sent(rig.feed_back(worker, *sequence, counts, BOUND)));
            let heard = rig.program.counts(worker).told;
            assert_eq!((heard.sequence, u64::from(heard.settled)), (*sequence, *settled));
        }
    }
    all
}

/// RT3, RT19, RT22: each number of a worker is given once, nobody has more than *n*, and no request
/// is sent twice.
#[test]
fn rt22_all_who_give_are_together_within_the_bounds() {
    let Some(mut rig) = rig(config()) else { return };
    (0..WORKERS).for_each(|worker| rig.join(worker, BOUND));
    let frames: Vec<_> = (0..2 * PACKETS)
        .map(|_| {
            let asked = rig.first(b"x", |_| {});
            rig.frame(rig.client, &asked)
        })
        .collect();
    let (rig, is_done) = (&rig, &AtomicBool::new(false));
    let mut all: Vec<(usize, u64)> = std::thread::scope(|scope| {
        let send = |which: usize| {
            let own = frames.iter().skip(which).step_by(2);
            // What is passed on, since all is full, is sent again.
            let became = own.map(|frame| {
                let mut tries = (0..TRIES_MAX).map(|_| rig.run(frame));
                let became = tries.find(|became| *became != Became::Passed);
                became.expect("it goes when somebody has settled")
            });
            became.filter_map(sent).collect::<Vec<_>>()
        };
        let senders = [0, 1].map(|which| scope.spawn(move || send(which)));
        let process = scope.spawn(move || {
            let (mut rng, mut all) = (Rng::new(1), Vec::new());
            while !is_done.load(Ordering::Acquire) && all.len() < TAKEN {
                let worker = rng.below(WORKERS as u64) as usize;
                all.extend(rig.program.take_slot(worker).map(|number| (worker, number)));
                std::thread::yield_now();
            }
            all
        });
        let settler = scope.spawn(move || settle(rig, is_done));
        let mut all: Vec<_> =
            senders.into_iter().flat_map(|sender| sender.join().expect("it holds")).collect();
        is_done.store(true, Ordering::Release);
        all.extend(process.join().expect("it holds"));
        all.extend(settler.join().expect("it holds"));
        all
    });
    all.sort_unstable();
    for worker in 0..WORKERS {
        let numbers = all.iter().filter(|(of, _)| *of == worker).map(|(_, number)| *number);
        assert!(numbers.eq(1..=rig.program.counts(worker).given), "each once, and none is lost");
    }
    let stats = rig.program.stats();
    assert_eq!(stats.parked, stats.unparked + stats.returned + rig.program.parked());
    let all_packets = 2 * PACKETS as u64;
    assert_eq!(stats.given + stats.parked + stats.contended, all_packets, "{stats:?}");
    assert!(stats.given > 0 && stats.unparked > 0, "{stats:?}");
}
