//! All kinds in one datapath, with random calls, changes and times. No item is lost or repeated,
//! items of a call keep their order, and held items continue in time.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_engine::*;

use super::support::*;
use crate::find;

const CHAIN: [(&str, &str); 13] = [
    ("null", "{}"),
    ("rate_limit", r#"{"rate_per_s": 300000, "burst": 3, "by": "peer", "waiting_max": 9}"#),
    (
        "access",
        r#"{"default": "allow", "rules": [
            {"name": "r", "action": "deny", "metadata": [{"key": "traceparent"}],
             "fields": [{"path": "n", "is": {"range": {"min": 900}}}]}]}"#,
    ),
    ("require_sealing", "{}"),
    (
        "qos",
        r#"{"order": {"small_first": {"threshold_bytes": 500}}, "bytes_per_s": 100000000,
            "burst_bytes": 1000, "held_max": 5, "hold_max_us": 50}"#,
    ),
    ("telemetry", r#"{"series_max": 2}"#),
    ("tracing", r#"{"probability": 0.5, "spans_max": 4}"#),
    ("circuit_breaker", r#"{"consecutive_failures": 3, "open_ms": 1, "keys_max": 2}"#),
    ("retry_budget", r#"{"ratio": 0.5, "by": "peer", "keys_max": 2}"#),
    ("overload", r#"{"calls_initial": 30, "window_ms": 1, "keys_max": 2}"#),
    (
        "faults",
        r#"{"rules": [{"probability": 0.2, "delay_us": 30},
            {"probability": 0.02, "abort": {"code": "ABORTED"}}], "held_max": 5}"#,
    ),
    ("mirror", r#"{"to": "shadow", "share": 0.5}"#),
    (
        "metadata",
        r#"{"rules": [{"on": ["requests", "ends"],
            "changes": [{"set": {"key": "k", "value": "v"}}]}]}"#,
    ),
];

#[test]
fn nothing_is_lost_or_repeated_or_out_of_order() {
    for seed in 0..500 {
        World::new(seed).run();
    }
}

struct World {
    seed: u64,
    rng: Rng,
    datapath: Datapath,
    schema: TestSchema,
    /// The kind and configuration at each place.
    chain: Vec<(&'static str, &'static str)>,
    now: u64,
    next: u32,
    /// Calls of which no end has been taken, and whether they are streams.
    calls: Vec<(CallId, bool)>,
    ended: Vec<CallId>,
    /// The numbers of the items that are there, by their indexes.
    inside: HashMap<usize, (CallId, Direction, u32)>,
    /// The number of the latest item of a call that has left in a direction.
    latest: HashMap<(CallId, Direction), u32>,
    requests: Vec<CallId>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            seed,
            rng: Rng::new(seed),
            datapath: Datapath::new(150, seed),
            schema: TestSchema { fields: vec![("n", FieldKind::Signed)], ..TestSchema::default() },
            chain: Vec::new(),
            now: 1_000_000_000,
            next: 1,
            calls: Vec::new(),
            ended: Vec::new(),
            inside: HashMap::new(),
            latest: HashMap::new(),
            requests: Vec::new(),
        };
        for (number, name) in METHODS {
            world.datapath.add_method(MethodId(number), name, &mut world.schema).unwrap();
        }
        CHAIN.iter().for_each(|link| world.attach(*link, None));
        world
    }

    fn run(mut self) {
        for _ in 0..400 {
            match self.rng.below(10) {
                0..4 => self.begin(),
                4..7 => self.go_on(),
                7 => self.change(),
                _ => self.turn(20),
            }
        }
        (0..300).for_each(|_| self.turn(100));
        let Counts { queued, held, .. } = self.datapath.counts();
        assert_eq!((queued, held), (0, 0), "seed {}: it is held for ever", self.seed);
        assert!(self.inside.is_empty(), "seed {}: {:?}", self.seed, self.inside);
    }

    fn attach(&mut self, link: (&'static str, &'static str), state: Option<&State>) {
        let place = self.rng.below(self.chain.len() as u64 + 1) as usize;
        let policy = make(find(link.0).unwrap(), link.1, state).unwrap();
        self.datapath.attach(place, policy, &mut self.schema).unwrap();
        self.chain.insert(place, link);
    }

    fn change(&mut self) {
        let mut place = || self.rng.below(CHAIN.len() as u64) as usize;
        let (at, to) = (place(), place());
        let (kind, configuration) = self.chain[at];
        let state = self.datapath.policy(at).unwrap().state();
        match self.rng.below(3) {
            0 => {
                let policy = make(find(kind).unwrap(), configuration, Some(&state)).unwrap();
                self.datapath.replace(at, policy, &mut self.schema).unwrap();
            }
            1 => {
                self.datapath.reorder(at, to, &mut self.schema).unwrap();
                let link = self.chain.remove(at);
                self.chain.insert(to, link);
            }
            _ => {
                self.datapath.detach(at, &mut self.schema).unwrap();
                let link = self.chain.remove(at);
                self.attach(link, Some(&state));
            }
        }
        self.take();
    }

    fn begin(&mut self) {
        let is_stream = self.rng.chance(0.5);
        let inbound = self.rng.chance(0.3);
        let requests = if inbound { Direction::Inbound } else { Direction::Outbound };
        let call = Call {
            peer: Peer(self.rng.below(5) as u32),
            method: MethodId(3 + self.rng.below(3) as u32),
            attempt: self.rng.below(3) as u8,
            is_sealed: self.rng.chance(0.9),
            deadline: Time::from_nanos(self.now + self.rng.below(100_000)),
            requests,
            is_stream,
            ..call()
        };
        if let Ok(id) = self.datapath.begin(call) {
            self.calls.push((id, is_stream));
            self.submit(id, ItemKind::Request);
        }
    }

    fn go_on(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let (id, is_stream) = self.calls[self.rng.below(self.calls.len() as u64) as usize];
        let has_begun = self.requests.contains(&id) && !self.ended.contains(&id);
        match self.rng.below(10) {
            0..4 if is_stream => self.submit(id, ItemKind::Message),
            4 if is_stream && has_begun => self.submit(id, ItemKind::Head),
            5 => self.submit(id, ItemKind::Cancel),
            6.. if has_begun => {
                self.submit(id, ItemKind::End);
                self.ended.push(id);
            }
            _ => {}
        }
    }

    fn submit(&mut self, id: CallId, kind: ItemKind) {
        let Some(call) = self.datapath.call(id) else { return };
        let is_back = matches!(kind, ItemKind::Head | ItemKind::End);
        let direction = if is_back { call.requests.reverse() } else { call.requests };
        let mut item = Submission::new(kind, direction, self.rng.below(1000) as u32);
        if kind == ItemKind::End && self.rng.chance(0.4) {
            item.status = Some(Status::unavailable("down"));
        }
        let method = call.method;
        let Ok(index) = self.datapath.submit(id, item, Time::from_nanos(self.now)) else { return };
        for (_, _, field) in self.schema.wanted.iter().filter(|(of, ..)| *of == method) {
            let value = Value::Signed(self.rng.below(1000) as i64);
            self.datapath.fields_mut(index).insert(*field, value);
        }
        self.inside.insert(index, (id, direction, self.next));
        self.next += 1;
    }

    fn turn(&mut self, us: u64) {
        self.now += self.rng.below(us * 1000);
        let turn = self.datapath.run(Time::from_nanos(self.now));
        let held = self.datapath.counts().held;
        assert!(held == 0 || turn.wake_at < Time::NEVER, "seed {}: nobody wakes", self.seed);
        self.take();
    }

    fn take(&mut self) {
        for direction in Direction::ALL {
            while let Some(item) = self.datapath.take(direction) {
                self.left(direction, &item);
            }
        }
        while let Some((index, _)) = self.datapath.pop_void() {
            self.inside.remove(&index);
        }
        let Counts { entered, left, void, queued, held } = self.datapath.counts();
        assert_eq!(entered, left + void + queued + held, "seed {}", self.seed);
    }

    fn left(&mut self, direction: Direction, item: &Finished) {
        let seed = self.seed;
        let known = self.inside.remove(&item.index);
        if !item.is_from_engine {
            let (id, way, number) = known.expect("it was put in");
            assert_eq!((id, way), (item.call, direction), "seed {seed}");
            let latest = self.latest.insert((id, way), number);
            assert!(latest.is_none_or(|latest| latest < number), "seed {seed}: overtaken");
        }
        match item.kind {
            ItemKind::Request => {
                assert!(!self.requests.contains(&item.call), "seed {seed}: twice");
                self.requests.push(item.call);
            }
            ItemKind::End => {
                let before = self.calls.len();
                self.calls.retain(|(id, _)| *id != item.call);
                assert_eq!(self.calls.len() + 1, before, "seed {seed}: two ends");
                assert!(!item.has_not_run || !self.requests.contains(&item.call), "seed {seed}");
            }
            _ => {}
        }
    }
}

/// A policy's engines may be in several datapaths of several threads.
#[test]
fn engines_of_a_policy_run_on_several_threads() {
    for (kind, configuration) in CHAIN {
        let policy = make(find(kind).unwrap(), configuration, None).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let policy = Arc::clone(&policy);
                scope.spawn(move || {
                    let schema = TestSchema {
                        fields: vec![("n", FieldKind::Signed)],
                        ..TestSchema::default()
                    };
                    let kind = find(kind).unwrap();
                    let mut rig = Rig::try_with(kind, policy, schema).unwrap();
                    for peer in 0..1000 {
                        let code = (peer % 3 == 0).then(|| Status::unavailable("down"));
                        rig.whole(Call { is_sealed: true, ..to_peer(peer % 7) }, 10, code);
                        rig.run_after(10_000);
                        rig.back();
                    }
                });
            }
        });
    }
}
