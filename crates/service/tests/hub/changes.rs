//! Policies that are added, changed and removed while calls run.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use petasos_engine::{Decompose, Direction, Engine, Item, Policy, PolicyError, State, Time, Work};

use crate::support::*;

/// Holds each item for a while.
struct Holds {
    nanos: u64,
}

struct HoldsEngine {
    nanos: u64,
    held: VecDeque<(Time, Item)>,
}

impl Policy for Holds {
    fn engine(&self, _: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        Ok(Box::new(HoldsEngine { nanos: self.nanos, held: VecDeque::new() }))
    }

    fn state(&self) -> State {
        State { kind: "holds".to_owned(), version: 1, json: "null".to_owned() }
    }
}

impl Engine for HoldsEngine {
    fn work(&mut self, work: &mut Work<'_>) {
        while self.held.front().is_some_and(|(due, _)| *due <= work.now()) {
            let (_, item) = self.held.pop_front().expect("there is one");
            work.forward(item);
        }
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                self.held.push_back((work.now().plus_nanos(self.nanos), item));
            }
        }
        if let Some((due, _)) = self.held.front() {
            work.wake_at(*due);
        }
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        self.held.into_iter().for_each(|(_, item)| decompose.give_back(item));
        None
    }
}

/// 1000 changes of each kind, with calls under way at each: none is lost, none comes twice.
#[test]
fn e5_e7_a_thousand_changes_lose_and_repeat_no_call() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let (mut sent, mut served, mut ended) = (0, HashSet::new(), HashSet::new());
    for round in 0..1000u64 {
        for _ in 0..4 {
            world.call(&mut client, &format!("call {sent}"));
            sent += 1;
        }
        for app in [&client, &server] {
            let application = world.hub.application(app.number).unwrap();
            let policy = Arc::new(Holds { nanos: round % 3 });
            let last = application.datapath().len().saturating_sub(1);
            match application.datapath().len() {
                0 | 1 => application.attach(0, policy).unwrap(),
                2 | 3 if round % 3 == 0 => application.attach(1, policy).unwrap(),
                _ if round % 3 == 1 => drop(application.replace(last, policy).unwrap()),
                _ if round % 5 == 2 => application.reorder(0, last).unwrap(),
                _ => drop(application.detach(last).unwrap()),
            }
        }
        for step in 0..3 {
            world.turn(Time::from_nanos(1_000_000 + 10 * round + step));
            world.listen(&mut client);
            world.listen(&mut server);
            for name in world.serve(&mut server) {
                assert!(served.insert(name.clone()), "{name} came twice");
            }
            take_ends(&mut world, &mut client, &mut ended);
        }
    }
    for step in 0..100 {
        world.turn(Time::from_nanos(2_000_000_000 + 10 * step));
        world.listen(&mut client);
        world.listen(&mut server);
        world.serve(&mut server).into_iter().for_each(|name| assert!(served.insert(name)));
        take_ends(&mut world, &mut client, &mut ended);
    }
    assert_eq!((sent, served.len(), ended.len()), (4000, 4000, 4000));
}

fn take_ends(world: &mut World, client: &mut App, ended: &mut HashSet<u64>) {
    for (call, status, _, message) in client.ends() {
        assert_eq!(status, 0);
        assert!(ended.insert(call.get()), "a call has ended twice");
        world.release(client, message).unwrap();
    }
}
