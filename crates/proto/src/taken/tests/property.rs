//! Random requests, packets and times against what RT16 to RT18 and RT21 promise.

use std::collections::HashMap;

use petasos_base::Rng;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Claimed,
    Receiving,
    Running,
    Ending,
    Kept,
}

/// What is known of a request. Those that are gone are not there.
#[derive(Debug)]
struct Known {
    is: Is,
    /// Whether there is a session that the client knows.
    session: Option<SessionName>,
    asker: Asker,
}

struct World {
    worker: Worker,
    rng: Rng,
    known: HashMap<TakenId, Known>,
    runs: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let config = TakenConfig { sessions_max: 40, ..TakenConfig::default() };
        let worker = Worker::with(config);
        World { worker, rng: Rng::new(seed), known: HashMap::new(), runs: 0 }
    }

    fn turn(&mut self) {
        if self.rng.chance(0.4) {
            self.arrives();
        }
        for _ in 0..self.rng.below(4) {
            self.does();
        }
        let pause_max = if self.rng.chance(0.02) { 200_000 } else { 1500 };
        let pause = self.rng.below(pause_max);
        self.worker.now = self.worker.now + Duration::from_micros(pause);
        for due in self.worker.due() {
            self.judge(due);
        }
        self.check();
    }

    fn arrives(&mut self) {
        let rng = &mut self.rng;
        // Some numbers are lost, and their holes written off.
        self.worker.given += u32::from(rng.chance(0.1));
        let arrived = self.worker.arrives();
        if rng.chance(0.1) {
            self.worker.taken.refuse(arrived);
            return;
        }
        let mut asker = self.worker.asker(rng.below(3) as u32);
        if rng.chance(0.3) {
            asker.expires_at = self.worker.now + Duration::from_micros(rng.below(30_000));
        }
        let (is_claim, now) = (rng.chance(0.6), self.worker.now);
        let (taken, is) =
            (&mut self.worker.taken, if is_claim { Is::Claimed } else { Is::Running });
        let result = match is_claim {
            true => taken.take_claim(now, arrived, asker, 5, asker.request),
            false => taken.take_whole(now, arrived, asker, 5, asker.request),
        };
        match result {
            Ok(id) => {
                self.runs += u64::from(!is_claim);
                let previous = self.known.insert(id, Known { is, session: None, asker });
                assert!(previous.is_none(), "a request has a name of its own");
            }
            Err((NoRoom, context)) => assert_eq!(context, asker.request),
        }
    }

    /// A packet of a client, or a handler that ends.
    fn does(&mut self) {
        let ids: Vec<TakenId> = {
            let mut ids: Vec<_> = self.known.keys().copied().collect();
            ids.sort_by_key(|id| self.known[id].asker.request);
            ids
        };
        if ids.is_empty() {
            return;
        }
        let id = ids[self.rng.below(ids.len() as u64) as usize];
        let known = &self.known[&id];
        let request = known.asker.request;
        let found = known.session.map(|session| self.worker.find(session, request));
        let is_there = known.is != Is::Ending;
        assert_eq!(found.unwrap_or(None).is_some(), known.session.is_some() && is_there);
        match self.rng.below(8) {
            0..4 if found.is_some() => self.receives(id),
            4 if found.is_some() => self.cancels(id),
            5 if found.is_some() => {
                let is_kept = known.is == Is::Kept;
                let done = self.worker.taken.done(id);
                assert_eq!(done, is_kept.then_some(request));
                self.ended(id, is_kept);
            }
            6 | 7 if matches!(known.is, Is::Running | Is::Ending) => self.answers(id),
            _ => {}
        }
    }

    fn receives(&mut self, id: TakenId) {
        let part = [Part::Old, Part::New, Part::Last][self.rng.below(3) as usize];
        let progress = self.worker.taken.receive(self.worker.now, id, part);
        let known = self.known.get_mut(&id).expect("it is there");
        let is_late = known.asker.expires_at <= self.worker.now;
        let (is, expected) = match (known.is, part) {
            (Is::Claimed | Is::Receiving, Part::Last) if is_late => {
                (Is::Kept, Progress::Rejected(RejectCode::Expired))
            }
            (Is::Claimed | Is::Receiving, Part::Last) => (Is::Running, Progress::Run),
            (Is::Claimed, _) => (Is::Receiving, Progress::None),
            // Rejected or answered.
            (Is::Kept, _) => (Is::Kept, progress),
            (is, _) => (is, Progress::None),
        };
        assert_eq!(progress, expected, "{known:?}");
        assert!(known.is != Is::Kept || progress != Progress::Run, "it never runs (W15)");
        known.is = is;
        self.runs += u64::from(progress == Progress::Run);
    }

    fn cancels(&mut self, id: TakenId) {
        let known = self.known.get_mut(&id).expect("it is there");
        let expected = (known.is != Is::Ending).then_some(known.asker.request);
        assert_eq!(self.worker.taken.cancel(id), expected);
        let is_running = matches!(known.is, Is::Running | Is::Ending);
        if is_running {
            known.is = Is::Ending;
        }
        self.ended(id, !is_running);
    }

    fn answers(&mut self, id: TakenId) {
        let (known, now) = (self.known.get_mut(&id).expect("it is there"), self.worker.now);
        let is_one_packet = self.rng.chance(0.5);
        let answered = match self.rng.chance(0.2) && is_one_packet {
            true => self.worker.taken.reject(now, id, RejectCode::Overloaded),
            false => self.worker.taken.answer(now, id, is_one_packet),
        };
        self.runs -= 1;
        let is_left = known.session.is_none() && is_one_packet;
        match answered {
            Answered::Unwanted => assert_eq!(known.is, Is::Ending),
            Answered::Left(context) => {
                assert!(known.is == Is::Running && is_left && context == known.asker.request);
            }
            Answered::Kept(session) => {
                assert!(known.is == Is::Running && !is_left);
                assert!(known.session.is_none_or(|known| known == session));
                (known.is, known.session) = (Is::Kept, Some(session));
                return;
            }
        }
        self.ended(id, true);
    }

    fn judge(&mut self, due: Due<u64>) {
        match due {
            Due::Ready { id, session, asker, is_running } => {
                let known = self.known.get_mut(&id).expect("it is there");
                let is = if is_running { Is::Running } else { Is::Claimed };
                assert_eq!((known.is, known.asker), (is, asker));
                assert!(known.session.is_none_or(|known| known == session));
                known.session = Some(session);
            }
            Due::Lapsed { id, code } => {
                let known = self.known.get_mut(&id).expect("it is there");
                assert!(matches!(known.is, Is::Claimed | Is::Receiving), "{known:?}");
                let is_late = known.asker.expires_at <= self.worker.now;
                assert!(code == RejectCode::Again || code == RejectCode::Expired && is_late);
                known.is = Is::Kept;
            }
            Due::Gone { id, context } => {
                let known = &self.known[&id];
                assert!(known.is == Is::Kept && context == known.asker.request);
                self.ended(id, true);
            }
        }
    }

    fn ended(&mut self, id: TakenId, is_gone: bool) {
        if is_gone {
            self.known.remove(&id);
            assert_eq!(self.worker.taken.context(id), None);
        }
    }

    /// Slots and sessions are conserved.
    fn check(&mut self) {
        let known = self.known.values();
        let open = known.filter(|known| known.is != Is::Kept).count() as u64;
        assert_eq!(self.worker.held(), open, "each is settled once");
        assert_eq!(self.worker.taken.sessions() as usize, self.known.len());
        let of = |client| self.worker.taken.sessions_of(client) as usize;
        assert_eq!(of(0) + of(1) + of(2), self.known.len());
        let is_running = |known: &&Known| matches!(known.is, Is::Running | Is::Ending);
        assert_eq!(self.known.values().filter(is_running).count() as u64, self.runs);
    }
}

#[test]
fn rt18_rt21_random_packets_settle_each_number_once_and_all_ends() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        for _ in 0..600 {
            world.turn();
        }
        // Clients are silent, and handlers end.
        for _ in 0..2500 {
            world.worker.now = world.worker.now + Duration::from_millis(1);
            for due in world.worker.due() {
                world.judge(due);
            }
            let running = |known: &Known| matches!(known.is, Is::Running | Is::Ending);
            let ids: Vec<_> =
                world.known.iter().filter(|(_, it)| running(it)).map(|(id, _)| *id).collect();
            for id in ids {
                world.answers(id);
            }
        }
        world.check();
        assert_eq!(world.worker.taken.sessions(), 0, "seed {seed}");
    }
}
