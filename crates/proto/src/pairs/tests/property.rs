//! Random packets and times against what RT10 to RT15 promise.

use std::collections::{HashMap, HashSet};

use petasos_base::Rng;

use super::*;

/// What is known of a pair.
struct Known {
    first: First,
    sendings: Vec<u64>,
    bound: Option<WorkerSession>,
    is_over: bool,
    rejected: HashSet<u64>,
}

struct World {
    client: Client,
    rng: Rng,
    known: HashMap<u64, Known>,
}

impl World {
    fn note(&mut self, first: First) {
        let known = self.known.entry(first.pair.request).or_insert_with(|| Known {
            first,
            sendings: Vec::new(),
            bound: None,
            is_over: false,
            rejected: HashSet::new(),
        });
        assert!(!known.is_over && known.bound.is_none(), "only who asks sends");
        assert!(!known.sendings.contains(&first.number));
        known.sendings.push(first.number);
        assert!(known.sendings.len() <= 4);
    }

    fn turn(&mut self) {
        if self.rng.chance(0.6) {
            let first = self.client.ask(self.rng.chance(0.5));
            self.note(first);
        }
        self.client.waits(self.rng.below(30));
        for over in self.client.over() {
            let known = self.known.get_mut(&over.context).expect("it was asked");
            assert!(!std::mem::replace(&mut known.is_over, true), "it ends once");
            assert!(known.bound.is_none());
            assert_eq!(over.has_not_run, known.first.is_claim);
        }
        for first in self.client.sent() {
            self.note(first);
        }
        for _ in 0..self.rng.below(6) {
            self.packet();
        }
        if self.rng.chance(0.2)
            && let Some(request) = self.any()
        {
            let pair = self.known[&request].first.pair;
            let ended = self.client.pairs.end(pair);
            let known = self.known.get_mut(&request).expect("it is there");
            assert_eq!(ended, (!known.is_over).then_some(request));
            known.is_over = true;
        }
    }

    /// Late packets to old pairs, too.
    fn any(&mut self) -> Option<u64> {
        let newest = self.known.len() as u64;
        let back = 1 + self.rng.below(120);
        newest.checked_sub(back)
    }

    fn packet(&mut self) {
        let Some(request) = self.any() else { return };
        let rng = &mut self.rng;
        let known = &self.known[&request];
        let first = known.first;
        let number = known.sendings[rng.below(known.sendings.len() as u64) as usize];
        let worker = 1 + rng.below(3) as u16;
        let member = Member { attachment: HERE, worker };
        let session = 1 + rng.below(3) as u32;
        let from = WorkerSession { member, session, tag: 7 };
        let code = RejectCode::from_value(1 + rng.below(11) as u32).expect("it is one");
        let to = match rng.below(6) {
            0 => ready(number, 0),
            1 => ready(number, 1),
            2 => response(number, 6),
            3 => response(number, 5000),
            4 => reject(number, code),
            _ => To { kind: Kind::Ack, ..ready(number, 0) },
        };
        let was_there = !self.client.is_over(first.pair);
        let answer = match to.kind {
            Kind::Ack => self.client.takes(&first, member, None, to),
            _ if rng.chance(0.3) => self.client.hears_only(&first, member, to),
            _ => self.client.hears(&first, from, to),
        };
        self.judge(request, from, (number, code), was_there, answer);
    }

    fn judge(
        &mut self,
        request: u64,
        from: WorkerSession,
        (number, code): (u64, RejectCode),
        was_there: bool,
        answer: Answer<u64>,
    ) {
        let known = self.known.get_mut(&request).expect("it is there");
        let is_claim = known.first.is_claim;
        match answer {
            Answer::None => {
                // If it was a certain rejection, it is one of several sendings.
                known.rejected.insert(number);
            }
            Answer::Complete { context, .. } => {
                assert!(was_there && !is_claim && known.bound.is_none() && context == request);
                known.is_over = true;
            }
            Answer::Ready { session, .. } | Answer::Response { session } => {
                assert!(was_there && known.bound.is_none(), "one session, ever");
                assert_eq!(session, from);
                known.bound = Some(session);
            }
            Answer::Session => {
                let bound = known.bound.expect("it is bound");
                assert!(was_there && bound.member == from.member);
            }
            Answer::Cancel { session, request: named } => {
                assert!(named == request && session == from);
                assert!(!was_there || known.bound.is_some_and(|bound| bound != from));
            }
            Answer::Rejected { context, code: said, has_not_run } => {
                assert!(was_there && known.bound.is_none() && context == request);
                assert_eq!(said, Some(code));
                let others = known.sendings.iter().filter(|sent| **sent != number);
                let all = others.into_iter().all(|sent| known.rejected.contains(sent));
                assert!(!has_not_run || is_claim || all, "each sending was rejected");
                known.is_over = true;
            }
        }
    }
}

#[test]
fn rt11_rt15_random_packets_bind_one_session_and_end_each_pair_once() {
    for seed in 0..300 {
        let (client, rng, known) = (Client::new(), Rng::new(seed), HashMap::new());
        let mut world = World { client, rng, known };
        for _ in 0..400 {
            world.turn();
        }
        let asked = world.known.values().filter(|known| !known.is_over && known.bound.is_none());
        assert_eq!(world.client.pairs.asked(HERE) as usize, asked.count(), "seed {seed}");
        // All that still ask end by themselves, within 2 s for each of four sendings.
        for _ in 0..8000 {
            world.client.waits(1);
            drop(world.client.sent());
        }
        assert_eq!(world.client.pairs.asked(HERE), 0, "seed {seed}");
    }
}
