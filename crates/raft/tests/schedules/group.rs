//! Replicas whose messages a test delivers one by one.

use std::collections::VecDeque;

use petasos_raft::{
    Entry, Kind, MemberId, Membership, Output, Position, Replica, Restored, Settings, Write,
};

pub const GROUP: u128 = 0x5eed;

/// A message that is under way.
#[derive(Clone, Debug)]
pub struct Letter {
    pub from: MemberId,
    pub to: MemberId,
    pub bytes: Vec<u8>,
}

/// A member whose disk is as fast as the test likes.
pub struct Member {
    pub replica: Replica,
    pub settings: Settings,
    /// Term and vote, as they are durable.
    pub hard_state: (u64, Option<MemberId>),
    /// Writes that have not ended.
    pub writes: VecDeque<Write>,
    /// Whether writes end at once.
    pub is_fast: bool,
    /// What it has said that is neither a write nor a message.
    pub said: Vec<Output>,
}

pub struct Group {
    pub now_us: u64,
    pub members: Vec<Member>,
    pub letters: VecDeque<Letter>,
}

pub fn first_entry(voters: usize) -> Vec<u8> {
    let mut data = Vec::new();
    Membership::of_voters(vec![Vec::new(); voters]).encode(&mut data);
    data
}

fn replica(
    settings: &Settings,
    hard_state: (u64, Option<MemberId>),
    voters: usize,
    now_us: u64,
) -> Replica {
    let mut restored = Restored::new(hard_state, Position::ZERO, Membership::default());
    let position = Position { term: 0, index: 1 };
    if voters > 0 {
        let data = first_entry(voters);
        restored.entry(Entry { position, kind: Kind::Configuration, data: &data }).unwrap();
    }
    Replica::new(settings.clone(), restored, now_us, settings.id.0)
}

impl Group {
    pub fn new(voters: usize, settings: impl Fn(Settings) -> Settings) -> Group {
        let mut group = Group { now_us: 1, members: Vec::new(), letters: VecDeque::new() };
        for id in 1..=voters as u64 {
            group.add(settings(Settings::new(GROUP, MemberId(id))), voters);
        }
        group
    }

    /// A member, with the first entry of a group of `voters`, or nothing.
    pub fn add(&mut self, settings: Settings, voters: usize) {
        let replica = replica(&settings, (0, None), voters, self.now_us);
        let (hard_state, writes, said) = ((0, None), VecDeque::new(), Vec::new());
        let member = Member { replica, settings, hard_state, writes, is_fast: true, said };
        self.members.push(member);
    }

    pub fn member(&mut self, id: u64) -> &mut Member {
        &mut self.members[usize::try_from(id).unwrap() - 1]
    }

    pub fn replica(&mut self, id: u64) -> &mut Replica {
        &mut self.member(id).replica
    }

    /// Starts a member again that has only the first entry, with the vote that it remembers.
    pub fn restart(&mut self, id: u64, voters: usize, hard_state: (u64, Option<MemberId>)) {
        let now_us = self.now_us;
        let member = self.member(id);
        member.replica = replica(&member.settings, hard_state, voters, now_us);
        member.writes.clear();
    }

    /// Takes what a member has to say.
    pub fn poll(&mut self, id: u64) {
        let (now_us, from) = (self.now_us, MemberId(id));
        let mut bytes = Vec::new();
        while let Some(output) = self.replica(id).poll(&mut bytes) {
            match output {
                Output::Write(write) => {
                    self.member(id).writes.push_back(write);
                    if self.member(id).is_fast {
                        self.end_writes(id);
                    }
                }
                Output::Send { to } => {
                    self.letters.push_back(Letter { from, to, bytes: bytes.clone() });
                }
                other => self.member(id).said.push(other),
            }
        }
        assert!(self.now_us >= now_us);
    }

    /// All writes of a member are durable.
    pub fn end_writes(&mut self, id: u64) {
        let now_us = self.now_us;
        while let Some(write) = self.member(id).writes.pop_front() {
            match write {
                Write::HardState { token, term, vote } => {
                    self.member(id).hard_state = (term, vote);
                    self.replica(id).done(now_us, token).unwrap();
                }
                Write::Truncate { token, .. } | Write::Reset { token, .. } => {
                    self.replica(id).done(now_us, token).unwrap();
                }
                Write::Append { last, .. } => self.replica(id).appended(now_us, last).unwrap(),
            }
        }
    }

    /// Time passes for a member, until something is due.
    pub fn expire(&mut self, id: u64) {
        self.now_us = self.now_us.max(self.replica(id).next_tick_us());
        self.tick(id);
    }

    pub fn tick(&mut self, id: u64) {
        let now_us = self.now_us;
        self.replica(id).tick(now_us).unwrap();
        self.poll(id);
    }

    /// Delivers the letters that `is_meant`, and those that follow from them; others stay.
    pub fn deliver(&mut self, is_meant: impl Fn(&Letter) -> bool) {
        let now_us = self.now_us;
        while let Some(at) = self.letters.iter().position(&is_meant) {
            let Letter { to, bytes, .. } = self.letters.remove(at).unwrap();
            self.replica(to.0).receive(now_us, &bytes).unwrap();
            self.poll(to.0);
        }
    }

    pub fn deliver_all(&mut self) {
        self.deliver(|_| true);
    }

    /// Delivers what is on its way between two members, and nothing that follows.
    pub fn deliver_one(&mut self, from: u64, to: u64) {
        let is_meant = |letter: &Letter| letter.from.0 == from && letter.to.0 == to;
        let at = self.letters.iter().position(is_meant).expect("there is a letter");
        let Letter { to, bytes, .. } = self.letters.remove(at).unwrap();
        let now_us = self.now_us;
        self.replica(to.0).receive(now_us, &bytes).unwrap();
        self.poll(to.0);
    }

    /// Has a member elected.
    pub fn elect(&mut self, id: u64) {
        self.expire(id);
        self.deliver_all();
        assert_eq!(self.replica(id).leader(), Some(MemberId(id)));
    }

    /// Lets time pass for the leader, and delivers its beats to those who are `reached`.
    pub fn beats(&mut self, leader: u64, count: u64, reached: impl Fn(u64) -> bool) {
        for _ in 0..count {
            self.expire(leader);
            self.letters.retain(|letter| reached(letter.to.0) && reached(letter.from.0));
            self.deliver_all();
        }
    }
}
