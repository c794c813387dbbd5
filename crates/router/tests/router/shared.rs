//! Slots that somebody else gives as well.

use std::sync::{Arc, Mutex};

use petasos_base::{Rng, Time};
use petasos_router::{
    Config, Event, Join, Output, Request, Router, SharedCounts, SharedSlots, WorkerCounts,
};

const WORKERS: usize = 3;
const BOUND: u16 = 4;

/// One worker's counters.
#[derive(Clone, Copy)]
struct Slot {
    limit: u16,
    given: u64,
    told: WorkerCounts,
}

/// All of them, which both givers have.
#[derive(Clone)]
struct Slots(Arc<Mutex<Vec<Slot>>>);

impl Slots {
    fn with<T>(&self, place: usize, act: impl FnOnce(&mut Slot) -> T) -> T {
        act(&mut self.0.lock().expect("nothing panics under the lock")[place])
    }
}

fn outstanding(slot: &Slot) -> u64 {
    slot.given - u64::from(slot.told.settled)
}

impl SharedSlots for Slots {
    fn begin(&mut self, place: usize, bound: u16) {
        let told = WorkerCounts { sequence: 0, received: 0, settled: 0, bound };
        self.with(place, |slot| *slot = Slot { limit: 0, given: 0, told });
    }

    fn end(&mut self, place: usize) {
        self.with(place, |slot| slot.limit = 0);
    }

    fn set_limit(&mut self, place: usize, limit: u16, _share: u8) {
        self.with(place, |slot| slot.limit = limit);
    }

    fn counts(&self, place: usize) -> SharedCounts {
        self.with(place, |slot| SharedCounts { given: slot.given, told: slot.told })
    }

    fn take(&mut self, place: usize) -> Option<u64> {
        self.with(place, |slot| {
            let limit = slot.limit.min(slot.told.bound);
            (outstanding(slot) < limit.into()).then(|| {
                slot.given += 1;
                slot.given
            })
        })
    }

    fn take_probe(&mut self, place: usize) -> u64 {
        self.with(place, |slot| {
            slot.given += 1;
            slot.given
        })
    }

    fn tell(
        &mut self,
        place: usize,
        before: &WorkerCounts,
        told: &WorkerCounts,
        _received: u64,
    ) -> bool {
        self.with(place, |slot| {
            let is_same = (slot.told.sequence, slot.told.settled, slot.told.bound)
                == (before.sequence, before.settled, before.bound);
            slot.told = if is_same { *told } else { slot.told };
            is_same
        })
    }
}

fn shared(config: &Config) -> (Router<u64>, Slots) {
    let told = WorkerCounts { sequence: 0, received: 0, settled: 0, bound: 0 };
    let slots = Slots(Arc::new(Mutex::new(vec![Slot { limit: 0, given: 0, told }; WORKERS])));
    let mut router = Router::new(config).expect("it is right");
    router.share(Box::new(slots.clone()));
    (router, slots)
}

fn config() -> Config {
    Config { workers_max: WORKERS, waiting_max: 64, waiting_age_max: None, ..Config::default() }
}

/// RT19, RT22: each number is given once, and nobody has more than *n*, whoever gives and hears.
#[test]
fn rt22_two_who_give_are_together_within_the_bounds() {
    for seed in 0..20 {
        let (mut router, mut slots) = shared(&Config { liveness: None, ..config() });
        let mut rng = Rng::new(seed);
        let mut now = Time::from_nanos(1);
        let join = |identity| Join { identity, bound: BOUND, weight: 100 };
        let ids: Vec<_> = (0..WORKERS as u64)
            .map(|at| router.handle_join(now, join(at)).expect("there is room"))
            .collect();
        router.publish();
        let mut given = vec![Vec::new(); WORKERS];
        let mut told = [(0, 0); WORKERS];
        for token in 0..2_000 {
            now = now.plus_nanos(10);
            let place = rng.below(WORKERS as u64) as usize;
            match rng.below(4) {
                0 => given[place].extend(slots.take(place)),
                1 => {
                    let request = Request {
                        token,
                        affinity: petasos_router::Affinity::Any,
                        priority: 0,
                        expires: Time::NEVER,
                    };
                    let _ = router.handle_request(now, request);
                }
                by => {
                    let counts = slots.counts(place);
                    let (sequence, settled) = &mut told[place];
                    *sequence += 1;
                    *settled += rng.below(counts.given - u64::from(*settled) + 1) as u32;
                    let received = counts.given as u32;
                    let news = WorkerCounts {
                        sequence: *sequence,
                        received,
                        settled: *settled,
                        bound: BOUND,
                    };
                    // Either hears it.
                    if by == 2 {
                        slots.with(place, |slot| slot.told = news);
                    } else {
                        router.handle_feedback(now, ids[place], &news).expect("it can be");
                    }
                }
            }
            while let Some(output) = router.poll(now, &mut rng) {
                let Output::Give(assignment) = output else { panic!("{output:?}") };
                given[assignment.worker.index()].push(assignment.number);
            }
            router.publish();
            let most = (0..WORKERS).map(|place| slots.with(place, |slot| outstanding(slot))).max();
            assert!(most <= Some(BOUND.into()), "{most:?}");
        }
        router.learn_shared(now);
        for (place, numbers) in given.iter_mut().enumerate() {
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "each once");
            let account = router.worker(ids[place]).expect("it is there").account;
            assert_eq!(account.given(), numbers.len() as u64);
            assert_eq!(account.settled(), told[place].1.into());
        }
        assert!(given.iter().all(|numbers| numbers.len() > 100));
    }
}

/// RT22, RT23: what another has given is asked for, and a worker that does not answer gets nothing
/// from anybody.
#[test]
fn rt23_a_worker_that_another_gives_to_is_probed_and_silent() {
    let (mut router, mut slots) = shared(&config());
    let (mut rng, mut now) = (Rng::new(1), Time::from_nanos(1));
    let join = Join { identity: 1, bound: BOUND, weight: 100 };
    let id = router.handle_join(now, join).expect("there is room");
    router.publish();
    assert_eq!((slots.take(0), slots.take(1)), (Some(1), None));
    assert!(router.learn_shared(now) && !router.learn_shared(now));
    let mut probes = Vec::new();
    while router.poll_event() != Some(Event::Silent { worker: id, outstanding: 2 }) {
        now = now.plus_nanos(1_000_000);
        router.handle_timeout(now);
        while let Some(output) = router.poll(now, &mut rng) {
            let Output::Probe { number, .. } = output else { panic!("{output:?}") };
            probes.push(number);
        }
        assert!(now.as_nanos() < 1_000_000_000, "it is silent after a lease");
        if probes.len() == 1 {
            // Numbers follow those that the other one gives.
            assert_eq!(probes, [2]);
            break;
        }
    }
    assert_eq!(slots.take(0), Some(3), "it may have four");
    while !router.worker(id).expect("it is there").is_silent {
        now = now.plus_nanos(1_000_000);
        router.learn_shared(now);
        router.handle_timeout(now);
        while let Some(output) = router.poll(now, &mut rng) {
            let Output::Probe { number, .. } = output else { panic!("{output:?}") };
            probes.push(number);
        }
        assert!(now.as_nanos() < 1_000_000_000, "it is silent after a lease");
    }
    router.publish();
    assert!(probes.len() > 2 && probes[1] == 4, "{probes:?}");
    assert_eq!(slots.take(0), None, "nobody gives to it");
    let told = WorkerCounts { sequence: 1, received: 3, settled: 3, bound: BOUND };
    slots.with(0, |slot| slot.told = told);
    router.learn_shared(now);
    router.publish();
    assert!(!router.worker(id).expect("it is there").is_silent);
    router.handle_end(id);
    assert_eq!(slots.take(0), None, "it has gone");
}
