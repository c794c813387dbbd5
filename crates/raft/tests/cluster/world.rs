//! Members, a network between them, time, and what must never be seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use petasos_base::Rng;
use petasos_raft::{Kind, MemberId, Membership, Position, Settings};

use crate::disk::{Disk, Durable, Snapshot, Stored};
use crate::node::{Act, Node};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Message(usize),
    Snapshot(usize),
    Disk(MemberId),
    Tick(MemberId),
    Client(u64),
}

/// What went wrong: a promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

pub struct World {
    pub now_us: u64,
    pub rng: Rng,
    pub nodes: BTreeMap<MemberId, Node>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    messages: BTreeMap<usize, (MemberId, MemberId, Vec<u8>)>,
    snapshots: BTreeMap<usize, (MemberId, MemberId, Snapshot)>,
    /// Directions in which nothing arrives.
    pub cut: BTreeSet<(MemberId, MemberId)>,
    pub loss: f64,
    pub delay_us: u64,
    pub settings: Settings,
    /// The log that all agree on: what was applied at each index.
    log: Vec<(u64, Kind, Vec<u8>)>,
    leaders: BTreeMap<u64, MemberId>,
    /// The highest index that was acknowledged, or read, so far.
    seen: u64,
    /// Commands that are under way, and when clients try something again.
    commands: u64,
    /// Reads that are under way, with what had been seen when each began.
    reads: BTreeMap<u64, u64>,
    pub acknowledged: BTreeMap<u64, u64>,
    pub reads_done: u64,
    pub violation: Option<Violation>,
    pub clients: u64,
}

impl World {
    /// A group with so many voters, all of which start.
    pub fn new(seed: u64, voters: usize, settings: &Settings) -> World {
        let mut world = World {
            now_us: 0,
            rng: Rng::new(seed),
            nodes: BTreeMap::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            messages: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss: 0.0,
            delay_us: 200,
            settings: settings.clone(),
            log: Vec::new(),
            leaders: BTreeMap::new(),
            seen: 0,
            commands: 0,
            reads: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            reads_done: 0,
            violation: None,
            clients: 0,
        };
        let membership = Membership::of_voters(vec![vec![]; voters]);
        let mut data = Vec::new();
        membership.encode(&mut data);
        let first = Stored { term: 0, kind: Kind::Configuration, data };
        for member in membership.members() {
            world.add(member.id, Durable::new(vec![first.clone()]));
            world.start(member.id);
        }
        world
    }

    /// A member, which does not run yet.
    pub fn add(&mut self, id: MemberId, durable: Durable) {
        let settings = Settings { id, ..self.settings.clone() };
        let node = Node::new(id, Disk::new(durable), settings, &mut self.rng);
        self.nodes.insert(id, node);
    }

    pub fn node(&mut self, id: MemberId) -> &mut Node {
        self.nodes.get_mut(&id).expect("there is such a member")
    }

    pub fn start(&mut self, id: MemberId) {
        let (now_us, mut rng) = (self.now_us, self.rng.clone());
        self.node(id).start(now_us, &mut rng);
        self.rng = rng;
        self.settle(id);
    }

    pub fn crash(&mut self, id: MemberId) {
        let mut rng = self.rng.clone();
        self.node(id).crash(&mut rng);
        self.rng = rng;
        // Others may see the connection end.
        let others: Vec<MemberId> =
            self.nodes.keys().copied().filter(|other| *other != id).collect();
        for other in others {
            if self.rng.chance(0.5) && !self.is_paused(other) {
                let clock = self.nodes[&other].clock(self.now_us);
                if let Some(replica) = &mut self.node(other).replica {
                    replica.disconnected(clock, id);
                }
                self.settle(other);
            }
        }
    }

    /// A member's clock runs at another rate from now on, in thousandths.
    pub fn set_rate(&mut self, id: MemberId, rate: u64) {
        let now_us = self.now_us;
        self.node(id).set_rate(now_us, rate);
        self.settle(id);
    }

    /// Nothing arrives at a member, or comes from it.
    pub fn isolate(&mut self, id: MemberId) {
        let others: Vec<MemberId> = self.nodes.keys().copied().collect();
        self.cut.extend(others.iter().flat_map(|other| [(id, *other), (*other, id)]));
    }

    /// So many clients write and read from now on.
    pub fn clients(&mut self, count: u64) {
        self.clients = count;
        (0..count).for_each(|client| self.push(self.now_us, Event::Client(client)));
    }

    fn is_paused(&self, id: MemberId) -> bool {
        self.nodes[&id].paused_until_us > self.now_us
    }

    fn push(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at_us, self.sequence, event)));
    }

    /// Goes on until then, or a promise is broken.
    pub fn run_until(&mut self, until_us: u64) {
        while let Some(Reverse((at_us, ..))) = self.events.peek()
            && *at_us <= until_us
            && self.violation.is_none()
        {
            let Reverse((at_us, _, event)) = self.events.pop().expect("there is one");
            self.now_us = at_us;
            self.step(event);
        }
        self.now_us = until_us;
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Message(number) => self.deliver(number),
            Event::Snapshot(number) => self.deliver_snapshot(number),
            Event::Disk(id) | Event::Tick(id) if self.is_paused(id) => {
                self.push(self.nodes[&id].paused_until_us, event);
            }
            Event::Disk(id) => {
                let now_us = self.now_us;
                self.node(id).disk_done(now_us);
                self.settle(id);
            }
            Event::Tick(id) => self.tick(id),
            Event::Client(client) => self.client(client),
        }
    }

    fn tick(&mut self, id: MemberId) {
        let clock = self.nodes[&id].clock(self.now_us);
        let Some(replica) = &mut self.node(id).replica else { return };
        if replica.next_tick_us() <= clock {
            replica.tick(clock).unwrap();
            self.settle(id);
        }
    }

    fn deliver(&mut self, number: usize) {
        let (from, to, bytes) = self.messages.remove(&number).expect("it is under way");
        if self.cut.contains(&(from, to)) || self.is_paused(to) {
            return;
        }
        let clock = self.nodes[&to].clock(self.now_us);
        if let Some(replica) = &mut self.node(to).replica {
            replica.receive(clock, &bytes).unwrap();
            self.settle(to);
        }
    }

    fn deliver_snapshot(&mut self, number: usize) {
        let (from, to, snapshot) = self.snapshots.remove(&number).expect("it is under way");
        let (now_us, is_cut) = (self.now_us, self.cut.contains(&(from, to)));
        if self.nodes.contains_key(&to) && !is_cut && !self.is_paused(to) {
            self.node(to).install(now_us, snapshot);
            self.settle(to);
        }
        let clock = self.nodes[&from].clock(now_us);
        if let Some(replica) = &mut self.node(from).replica {
            replica.snapshot_sent(clock, to);
            self.settle(from);
        }
    }

    /// A client writes or reads, at a member that it takes for the leader, and goes on a while
    /// later.
    fn client(&mut self, client: u64) {
        if client >= self.clients {
            return;
        }
        let ids: Vec<MemberId> = self.nodes.keys().copied().collect();
        let leader = ids.iter().find(|id| {
            let replica = self.nodes[id].replica.as_ref();
            replica.is_some_and(|replica| replica.leader() == Some(**id))
        });
        let any = ids[usize::try_from(self.rng.below(ids.len() as u64)).unwrap()];
        let to = leader.copied().filter(|_| self.rng.chance(0.7)).unwrap_or(any);
        if !self.is_paused(to) {
            self.call(to);
        }
        let again_us = self.now_us + 500 + self.rng.below(3000);
        self.push(again_us, Event::Client(client));
    }

    /// Something is written, or read, at a member.
    pub fn call(&mut self, to: MemberId) {
        self.commands += 1;
        let (now_us, command) = (self.now_us, self.commands);
        let mut acts = Vec::new();
        if self.rng.chance(0.5) {
            let length = 8 + usize::try_from(self.rng.below(40)).unwrap();
            let _ = self.node(to).propose(now_us, command, length, &mut acts);
        } else {
            let seen = self.seen;
            if self.node(to).read(now_us, command, &mut acts) {
                self.reads.insert(command, seen);
            }
        }
        self.act(to, acts);
        self.settle(to);
    }

    /// Does what a member wants, and sees to its timer.
    pub fn settle(&mut self, id: MemberId) {
        let mut acts = Vec::new();
        let (now_us, mut rng) = (self.now_us, self.rng.clone());
        self.node(id).drain(now_us, &mut rng, &mut acts);
        self.rng = rng;
        self.act(id, acts);
        let node = &self.nodes[&id];
        if let Some(replica) = &node.replica {
            let at_us = node.world(replica.next_tick_us()).max(now_us);
            self.push(at_us, Event::Tick(id));
        }
    }

    fn act(&mut self, id: MemberId, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send(to, bytes) => self.send(id, to, &bytes),
                Act::Snapshot(to, snapshot) => {
                    let number = usize::try_from(self.sequence).unwrap();
                    self.snapshots.insert(number, (id, to, snapshot));
                    let takes_us = 1000 + self.rng.below(20_000);
                    self.push(self.now_us + takes_us, Event::Snapshot(number));
                }
                Act::Disk(at_us) => self.push(at_us, Event::Disk(id)),
                Act::Applied(position, kind, data) => {
                    if kind == Kind::Configuration {
                        self.begin_members(&data);
                    }
                    self.applied(id, position, kind, data);
                }
                Act::Acknowledged(command, index) => {
                    self.seen = self.seen.max(index);
                    self.acknowledged.insert(index, command);
                }
                Act::Read(read, index) => self.read_done(id, read, index),
                Act::Leads(term) => {
                    let first = *self.leaders.entry(term).or_insert(id);
                    if first != id {
                        self.violate(format!("{first} and {id} lead in term {term}"));
                    }
                }
            }
        }
    }

    /// Members that a committed configuration has, and that were not there before, start without
    /// data: nobody is told a number before that.
    fn begin_members(&mut self, data: &[u8]) {
        let membership = Membership::decode(data).expect("it was encoded");
        for member in membership.members() {
            if !self.nodes.contains_key(&member.id) {
                self.add(member.id, Durable::new(Vec::new()));
                self.start(member.id);
            }
        }
    }

    fn send(&mut self, from: MemberId, to: MemberId, bytes: &[u8]) {
        let copies = match self.rng.chance(self.loss) {
            true => 2 * self.rng.below(2),
            false => 1,
        };
        if !self.nodes.contains_key(&to) {
            return;
        }
        for _ in 0..copies {
            let number = usize::try_from(self.sequence).unwrap();
            self.messages.insert(number, (from, to, bytes.to_vec()));
            let takes_us = 20 + self.rng.below(self.delay_us);
            self.push(self.now_us + takes_us, Event::Message(number));
        }
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(Violation(what));
    }

    fn applied(&mut self, id: MemberId, position: Position, kind: Kind, data: Vec<u8>) {
        let Position { term, index } = position;
        let at = usize::try_from(index - 1).unwrap();
        let entry = (term, kind, data);
        match self.log.get(at) {
            None => {
                assert_eq!(at, self.log.len(), "entries are applied in order");
                self.log.push(entry);
            }
            Some(agreed) if *agreed == entry => {}
            Some(agreed) => {
                let what = format!("{id} applies another entry than {agreed:?} at {index}");
                self.violate(what);
            }
        }
    }

    fn read_done(&mut self, id: MemberId, read: u64, index: u64) {
        let seen = self.reads.remove(&read).unwrap_or(0);
        if index < seen {
            self.violate(format!("{id} reads at {index}, although {seen} had been seen before"));
        }
        self.seen = self.seen.max(index);
        self.reads_done += 1;
    }

    /// What was acknowledged is in the log that all agree on.
    pub fn check_acknowledged(&mut self) {
        for (&index, &command) in &self.acknowledged {
            let entry = self.log.get(usize::try_from(index - 1).unwrap());
            let is_there = entry.is_some_and(|(_, kind, data)| {
                *kind == Kind::Command && data.starts_with(&command.to_le_bytes())
            });
            if !is_there {
                let what = format!("command {command} was acknowledged at {index} and is lost");
                self.violation.get_or_insert(Violation(what));
            }
        }
    }

    /// Who leads, if there is one that all who run and are members believe to lead.
    pub fn leader(&self) -> Option<MemberId> {
        let replicas = self.nodes.values().filter_map(|node| node.replica.as_ref());
        let leading = replicas.filter(|replica| replica.leader() == Some(replica.id()));
        leading.max_by_key(|replica| replica.term()).map(|replica| replica.id())
    }
}
