//! Messages between the replicas of a group (QR5 to QR8).

use std::collections::VecDeque;

use petasos_raft::{
    Entry, Kind, MemberId, Membership, Output, Position, Replica, Restored, Settings, Write,
};

use crate::Seed;

const GROUP: u128 = 1;

struct Group {
    now_us: u64,
    replicas: Vec<Replica>,
    letters: VecDeque<(usize, Vec<u8>)>,
}

/// Bytes that are no message, and then steps of three replicas: time passes, commands are proposed,
/// messages arrive, twice, late, changed, or not at all.
pub fn run(bytes: &[u8]) {
    let mut group = group();
    for replica in &mut group.replicas {
        let _ = replica.receive(1, bytes);
    }
    let mut steps = bytes.iter().copied();
    while let (Some(what), Some(which)) = (steps.next(), steps.next()) {
        if !group.step(what, which, &mut steps) {
            return;
        }
    }
}

fn group() -> Group {
    let mut data = Vec::new();
    Membership::of_voters(vec![Vec::new(); 3]).encode(&mut data);
    let position = Position { term: 0, index: 1 };
    let replicas = (1..=3).map(|id| {
        let mut restored = Restored::new((0, None), Position::ZERO, Membership::default());
        let first = Entry { position, kind: Kind::Configuration, data: &data };
        restored.entry(first).expect("it is the first entry");
        let settings = Settings { kept_bytes: 100, ..Settings::new(GROUP, MemberId(id)) };
        Replica::new(settings, restored, 0, id)
    });
    Group { now_us: 1, replicas: replicas.collect(), letters: VecDeque::new() }
}

impl Group {
    /// One step. Whether it may go on: a replica that was lied to says so, and ends.
    fn step(&mut self, what: u8, which: u8, steps: &mut impl Iterator<Item = u8>) -> bool {
        let now_us = self.now_us;
        let at = usize::from(which) % 3;
        let replica = &mut self.replicas[at];
        let result = match what % 6 {
            0 => {
                self.now_us = now_us.max(replica.next_tick_us());
                replica.tick(self.now_us).is_ok()
            }
            1 => {
                let _ = replica.propose(now_us, &[which; 20]);
                let _ = replica.read();
                true
            }
            2 => return self.change(steps),
            3 => {
                self.letters.pop_front();
                true
            }
            4 => {
                if let Some(letter) = self.letters.front().cloned() {
                    self.letters.push_back(letter);
                }
                return self.deliver();
            }
            _ => return self.deliver(),
        };
        self.poll(at);
        result
    }

    /// A byte of the next message is another one.
    fn change(&mut self, steps: &mut impl Iterator<Item = u8>) -> bool {
        let (Some(at), Some(value)) = (steps.next(), steps.next()) else { return false };
        if let Some((_, bytes)) = self.letters.front_mut() {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        self.deliver()
    }

    fn deliver(&mut self) -> bool {
        let Some((to, bytes)) = self.letters.pop_front() else { return true };
        let result = self.replicas[to].receive(self.now_us, &bytes);
        self.poll(to);
        !matches!(result, Err(petasos_raft::Refused::Diverged(_)))
    }

    /// What a replica says, with a disk that is always done.
    fn poll(&mut self, at: usize) {
        let (now_us, mut bytes) = (self.now_us, Vec::new());
        let replica = &mut self.replicas[at];
        while let Some(output) = replica.poll(&mut bytes) {
            let ended = match output {
                Output::Write(Write::Append { last, .. }) => replica.appended(now_us, last),
                Output::Write(
                    Write::HardState { token, .. }
                    | Write::Truncate { token, .. }
                    | Write::Reset { token, .. },
                ) => replica.done(now_us, token),
                Output::Send { to } if (1..=3).contains(&to.0) && self.letters.len() < 100 => {
                    self.letters.push_back((to.0 as usize - 1, bytes.clone()));
                    Ok(())
                }
                Output::Fetch { to, .. } => {
                    replica.fetched(now_us, to, []);
                    Ok(())
                }
                _ => Ok(()),
            };
            if ended.is_err() {
                return;
            }
        }
        replica.release(replica.committed());
    }
}

/// An election with commands, and a message.
pub fn seeds() -> Vec<Seed> {
    let deliver = [5, 0].repeat(12);
    let steps = [&[0, 0][..], &deliver, &[1, 0], &deliver, &[0, 0], &deliver].concat();
    let mut message = Vec::new();
    let mut replica = group().replicas.swap_remove(0);
    replica.tick(replica.next_tick_us()).expect("it has heard nothing");
    let _ = replica.poll(&mut message);
    vec![("election", steps), ("message", message)]
}
