//! A store with revisions: a whole copy of it for each, so nothing of it is like the checker's.

use std::collections::BTreeMap;

use petasos_base::Rng;
use petasos_history::{
    Bytes, CallId, Compare, Event, Item, Keys, ModelKind, Op, Operand, Recorder, Refusal, Relation,
    Reply, Seen,
};

use super::key;
use super::world::Service;

const NS_PER_MS: u64 = 1_000_000;

/// What is wrong with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// What was there earlier, with the present revision.
    StaleItems,
    /// What was there earlier, with the revision of that time.
    StaleRead,
    LostWrite,
    DoneTwice,
    WrongBranch,
    WrongPast,
    KeyOutlivesLease,
    EarlyExpiry,
    WatchGap,
    WatchRepeats,
    WatchReorders,
    WatchEarly,
    Denied,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    All,
    /// Neither leases nor compaction.
    Plain,
    /// What one lease is about.
    Leases,
}

type Items = BTreeMap<Bytes, Item>;

struct Watch {
    id: Option<CallId>,
    keys: Keys,
    next: u64,
}

/// The service.
pub struct Etcd {
    keys: u64,
    fault: Fault,
    calls: Calls,
    /// The items at each revision, the first of which is 1.
    past: Vec<Items>,
    leases: BTreeMap<u64, (u64, u64)>,
    watches: Vec<Watch>,
    compacted: u64,
    written: u64,
    answered: u64,
    again: Option<Op>,
}

impl Etcd {
    pub fn new(keys: u64, fault: Fault) -> Etcd {
        let all = Keys { key: "".into(), end: Some("".into()) };
        let some = Keys { key: "k1".into(), end: Some("k3".into()) };
        let watch = |keys, next| Watch { id: None, keys, next };
        Etcd {
            keys,
            fault,
            calls: Calls::All,
            past: vec![Items::new(), Items::new()],
            leases: BTreeMap::new(),
            watches: vec![watch(all, 2), watch(some, 2)],
            compacted: 0,
            written: 0,
            answered: 0,
            again: None,
        }
    }

    /// Of all calls, only these.
    pub fn only(self, calls: Calls) -> Etcd {
        Etcd { calls, ..self }
    }

    fn revision(&self) -> u64 {
        self.past.len() as u64 - 1
    }

    fn now(&self) -> &Items {
        &self.past[self.past.len() - 1]
    }

    fn is_wrong(&self, fault: Fault) -> bool {
        self.fault == fault && self.answered > 20 && self.answered.is_multiple_of(8)
    }

    fn put(items: &mut Items, revision: u64, key: &Bytes, value: &Bytes, lease: u64) {
        let old = items.get(key).map(|item| (item.create, item.version));
        let (create, version) = old.unwrap_or((revision, 0));
        let (key, value, version) = (key.clone(), value.clone(), version + 1);
        items.insert(key.clone(), Item { key, value, create, modified: revision, version, lease });
    }

    fn holds(&self, Compare { key, is, than }: &Compare) -> bool {
        let item = self.now().get(key);
        let of = |field: fn(&Item) -> u64| item.map_or(0, field);
        let order = match than {
            Operand::Value(than) => match item {
                None => return false,
                Some(item) => item.value.cmp(than),
            },
            Operand::Create(than) => of(|item| item.create).cmp(than),
            Operand::Mod(than) => of(|item| item.modified).cmp(than),
            Operand::Version(than) => of(|item| item.version).cmp(than),
            Operand::Lease(than) => of(|item| item.lease).cmp(than),
        };
        match is {
            Relation::Equal => order.is_eq(),
            Relation::NotEqual => order.is_ne(),
            Relation::Less => order.is_lt(),
            Relation::Greater => order.is_gt(),
        }
    }

    /// Does operations in a copy, which becomes the next revision if anything was written.
    fn write(&mut self, ops: &[Op]) -> (Vec<Reply>, u64) {
        let next = self.revision() + 1;
        let mut items = self.now().clone();
        let mut is_written = false;
        let mut act = |op: &Op| match op {
            Op::Put { key, value, lease } => {
                Self::put(&mut items, next, key, value, *lease);
                is_written = true;
                Reply::default()
            }
            Op::DeleteRange { keys } => {
                let before = items.len();
                items.retain(|key, _| !keys.has(key));
                is_written |= items.len() != before;
                Reply { deleted: Some((before - items.len()) as u64), ..Reply::default() }
            }
            Op::Range { keys, limit, .. } => found(&items, keys, *limit),
            other => panic!("not asked: {other:?}"),
        };
        let replies = ops.iter().map(&mut act).collect();
        if is_written {
            self.past.push(items);
        }
        (replies, self.revision())
    }

    fn range(&self, keys: &Keys, revision: u64, limit: u64, is_stale: bool) -> Reply {
        let back = self.revision().saturating_sub(if is_stale { 2 } else { 0 });
        let wrong = |fault, back: u64| if self.is_wrong(fault) { back } else { 0 };
        let now = back.saturating_sub(wrong(Fault::StaleRead, 40)).max(1);
        let at = if revision == 0 { now } else { revision };
        let error = match revision {
            _ if at > now => Some(Refusal::Future),
            1.. if at < self.compacted => Some(Refusal::Compacted),
            _ => None,
        };
        if error.is_some() {
            return Reply { error, revision: Some(now), ..Reply::default() };
        }
        let past = if revision == 0 { 0 } else { wrong(Fault::WrongPast, 20) };
        let at = at.saturating_sub(wrong(Fault::StaleItems, 20) + past).max(1);
        let reply = found(&self.past[at as usize], keys, limit);
        Reply { revision: Some(now), ..reply }
    }

    fn revoke(&mut self, lease: u64) -> Option<Refusal> {
        if self.leases.remove(&lease).is_none() {
            return Some(Refusal::NoLease);
        }
        let mut items = self.now().clone();
        let survivor = items.values().find(|item| item.lease == lease).map(|item| item.key.clone());
        let survivor = survivor.filter(|_| self.fault == Fault::KeyOutlivesLease);
        items.retain(|key, item| item.lease != lease || survivor.as_ref() == Some(key));
        if items.len() != self.now().len() {
            self.past.push(items);
        }
        None
    }

    fn act(&mut self, op: &Op, called_at: u64) -> Reply {
        let refusal = |error| Reply { error, ..Reply::default() };
        let is_unknown = |op: &Op| match op {
            Op::Put { lease, .. } => *lease != 0 && !self.leases.contains_key(lease),
            _ => false,
        };
        match op {
            op if is_unknown(op) => refusal(Some(Refusal::NoLease)),
            Op::Put { .. } if self.is_wrong(Fault::LostWrite) => {
                Reply { revision: Some(self.revision() + 1), ..Reply::default() }
            }
            Op::Put { .. } | Op::DeleteRange { .. } => {
                let (replies, revision) = self.write(std::slice::from_ref(op));
                Reply { revision: Some(revision), ..replies[0].clone() }
            }
            Op::Range { keys, revision, limit, stale } => {
                self.range(keys, *revision, *limit, *stale)
            }
            Op::Txn { compare, then, otherwise } => {
                let holds = compare.iter().all(|compare| self.holds(compare));
                let holds = holds != self.is_wrong(Fault::WrongBranch);
                let ops = if holds { then } else { otherwise };
                if ops.iter().any(is_unknown) {
                    return refusal(Some(Refusal::NoLease));
                }
                let (parts, revision) = self.write(ops);
                let (succeeded, parts) = (Some(holds), Some(parts));
                Reply { succeeded, parts, revision: Some(revision), ..Reply::default() }
            }
            Op::Grant { lease, ttl_ms } => {
                if self.leases.contains_key(lease) {
                    return refusal(Some(Refusal::LeaseExists));
                }
                let ttl = ttl_ms * NS_PER_MS;
                self.leases.insert(*lease, (called_at + ttl, ttl));
                Reply::default()
            }
            Op::KeepAlive { lease } => {
                let found = self.leases.get_mut(lease);
                let alive = Some(found.is_some());
                if let Some((ends, ttl)) = found {
                    *ends = (*ends).max(called_at + *ttl);
                }
                Reply { alive, ..Reply::default() }
            }
            Op::Revoke { lease } => refusal(self.revoke(*lease)),
            Op::Compact { revision } => {
                let error = match *revision {
                    at if at > self.revision() => Some(Refusal::Future),
                    at if at <= self.compacted => Some(Refusal::Compacted),
                    _ => None,
                };
                self.compacted = if error.is_none() { *revision } else { self.compacted };
                refusal(error)
            }
            other => panic!("not asked: {other:?}"),
        }
    }

    fn simple(&mut self, rng: &mut Rng) -> Op {
        let key = key(rng, self.keys);
        let end = match rng.below(4) {
            0 => Some("k9".into()),
            1 => Some("".into()),
            _ => None,
        };
        match rng.below(8) {
            0..4 => {
                self.written += 1;
                let value = format!("v{}", self.written).as_str().into();
                let lease = if rng.chance(0.3) { rng.below(3) } else { 0 };
                let lease = if self.calls == Calls::Plain { 0 } else { lease };
                Op::Put { key, value, lease }
            }
            4 => Op::DeleteRange { keys: Keys { key, end: end.filter(|_| rng.chance(0.2)) } },
            _ => {
                let limit = if rng.chance(0.2) { 2 } else { 0 };
                Op::Range { keys: Keys { key, end }, revision: 0, limit, stale: false }
            }
        }
    }

    fn of_a_lease(&mut self, rng: &mut Rng) -> Op {
        let (key, lease) = (key(rng, self.keys), 1);
        match rng.below(8) {
            0 | 1 => Op::Grant { lease, ttl_ms: 1 },
            2 => Op::KeepAlive { lease },
            3 if rng.chance(0.5) => Op::Revoke { lease },
            3..6 => {
                self.written += 1;
                Op::Put { key, value: format!("v{}", self.written).as_str().into(), lease }
            }
            _ => {
                let keys = Keys { key, end: Some("".into()) };
                Op::Range { keys, revision: 0, limit: 0, stale: false }
            }
        }
    }

    fn compare(&self, rng: &mut Rng) -> Compare {
        let key = key(rng, self.keys);
        let item = self.now().get(&key);
        let number = |of: fn(&Item) -> u64| item.map_or(0, of);
        let (is, than) = match rng.below(6) {
            0 => (Relation::Equal, Operand::Create(0)),
            1 => (Relation::Equal, Operand::Mod(number(|item| item.modified))),
            2 => (Relation::Greater, Operand::Version(1)),
            3 => (Relation::Less, Operand::Create(self.revision() / 2)),
            4 => (Relation::NotEqual, Operand::Lease(0)),
            _ => {
                (Relation::Equal, Operand::Value(item.map_or("".into(), |item| item.value.clone())))
            }
        };
        Compare { key, is, than }
    }

    /// Puts of one transaction are of different keys, as etcd wants it.
    fn txn(&mut self, rng: &mut Rng) -> Op {
        let compare = vec![self.compare(rng)];
        let mut then = vec![self.simple(rng)];
        if let Op::Put { key, .. } = &then[0] {
            self.written += 1;
            let value = format!("v{}", self.written).as_str().into();
            let other = format!("{}b", String::from_utf8_lossy(key.as_slice()));
            then.push(Op::Put { key: other.as_str().into(), value, lease: 0 });
            let keys = Keys { key: "k".into(), end: Some("".into()) };
            then.push(Op::Range { keys, revision: 0, limit: 0, stale: false });
        }
        let otherwise = if rng.chance(0.5) { vec![self.simple(rng)] } else { vec![] };
        Op::Txn { compare, then, otherwise }
    }
}

fn found(items: &Items, keys: &Keys, limit: u64) -> Reply {
    let mut all: Vec<Item> = items.values().filter(|item| keys.has(&item.key)).cloned().collect();
    let count = Some(all.len() as u64);
    if limit != 0 {
        all.truncate(limit as usize);
    }
    Reply { items: Some(all), count, ..Reply::default() }
}

impl Service for Etcd {
    const MODEL: ModelKind = ModelKind::Etcd;

    fn ask(&mut self, rng: &mut Rng) -> Op {
        let revision = 1 + rng.below(self.revision() + 1);
        match rng.below(20) {
            14..17 if self.calls == Calls::Plain => self.simple(rng),
            _ if self.calls == Calls::Leases => self.of_a_lease(rng),
            0..11 => self.simple(rng),
            11..14 => self.txn(rng),
            14 => Op::Grant { lease: 1 + rng.below(2), ttl_ms: 1 },
            15 if rng.chance(0.3) => Op::Revoke { lease: 1 + rng.below(2) },
            15 => Op::KeepAlive { lease: 1 + rng.below(2) },
            16 if rng.chance(0.1) => Op::Compact { revision: revision / 2 + 1 },
            kind => {
                let keys = Keys { key: "k".into(), end: Some("".into()) };
                match kind {
                    17 => Op::Range { keys, revision: 0, limit: 0, stale: true },
                    _ => Op::Range { keys, revision, limit: 0, stale: false },
                }
            }
        }
    }

    fn answer(&mut self, op: &Op, called_at: u64, _: u64) -> Reply {
        self.answered += 1;
        if self.is_wrong(Fault::DoneTwice)
            && let Some(again) = self.again.take()
        {
            self.act(&again, called_at);
        }
        if matches!(op, Op::Put { lease: 0, .. }) {
            self.again = Some(op.clone());
        }
        self.act(op, called_at)
    }

    fn idle(&mut self, now: u64, log: &Recorder<Vec<u8>>) {
        let early = if self.fault == Fault::EarlyExpiry { NS_PER_MS * 19 / 20 } else { 0 };
        let ended = self.leases.iter().filter(|(_, (ends, _))| *ends <= now + early);
        if let Some(lease) = ended.map(|(lease, _)| *lease).next() {
            self.revoke(lease);
        }
        for which in 0..self.watches.len() {
            self.tell(which, now, log);
        }
    }

    fn denies(&self) -> bool {
        self.fault == Fault::Denied
    }
}

impl Etcd {
    /// Tells a watch the next changes, some turns after they have happened.
    fn tell(&mut self, which: usize, now: u64, log: &Recorder<Vec<u8>>) {
        let revision = self.revision();
        let watch = &mut self.watches[which];
        let id = *watch.id.get_or_insert_with(|| {
            let op = Op::Watch { keys: watch.keys.clone(), revision: 0 };
            let id = log.call(now, &op).expect("it is memory");
            log.seen(id, now, Seen::Created(revision)).expect("it is memory");
            watch.next = revision + 1;
            id
        });
        if watch.next + 3 > revision {
            return;
        }
        let mut events = Vec::new();
        for at in watch.next..=revision {
            let (old, new) = (&self.past[at as usize - 1], &self.past[at as usize]);
            events.extend(
                changes(old, new, at).into_iter().filter(|event| watch.keys.has(event.key())),
            );
        }
        watch.next = revision + 1;
        if events.is_empty() {
            return log.seen(id, now, Seen::Progress(revision)).expect("it is memory");
        }
        if revision > 100 {
            match self.fault {
                Fault::WatchGap if events.len() > 2 => drop(events.remove(1)),
                Fault::WatchRepeats => events.push(events[events.len() - 1].clone()),
                Fault::WatchReorders => events.reverse(),
                Fault::WatchEarly => {
                    let id = log.call(now, &Op::Watch { keys: all(), revision: revision + 30 });
                    let event = Event::Delete { key: "k0".into(), revision: revision + 40 };
                    let seen = Seen::Events(vec![event]);
                    log.seen(id.expect("it is memory"), now, seen).expect("it is memory");
                }
                _ => {}
            }
        }
        log.seen(id, now, Seen::Events(events)).expect("it is memory");
    }
}

fn all() -> Keys {
    Keys { key: "".into(), end: Some("".into()) }
}

fn changes(old: &Items, new: &Items, revision: u64) -> Vec<Event> {
    let put = new.values().filter(|item| item.modified == revision).cloned().map(Event::Put);
    let gone = old.keys().filter(|key| !new.contains_key(*key)).cloned();
    put.chain(gone.map(|key| Event::Delete { key, revision })).collect()
}
