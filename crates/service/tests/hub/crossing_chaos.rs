//! Applications of three hubs, and other hosts, that act at random while letters are late.

use std::collections::HashSet;

use petasos_abi::{CallNumber, Contents, Descriptor};
use petasos_base::Rng;
use petasos_call::Status;
use petasos_service::{
    ApplicationLimits, RemoteCall, RemoteEvent, RemoteItem, RemoteLimits, RemoteOutcome,
};

use crate::crossing::Hubs;
use crate::remote::{encoded, incoming, success};
use crate::support::*;

const HUBS: usize = 3;

/// One application of each hub. Each serves a name, and calls all of them and another host.
struct Chaos {
    hubs: Hubs,
    rng: Rng,
    apps: Vec<App>,
    /// Calls of each application that have not ended.
    open: Vec<HashSet<CallNumber>>,
    given_up: Vec<HashSet<CallNumber>>,
    served: Vec<Vec<CallNumber>>,
    /// Calls that the transport has brought, or was given.
    carried: Vec<RemoteCall>,
    ended: usize,
}

impl Chaos {
    fn new(seed: u64) -> Chaos {
        let mut hubs = Hubs::new(HUBS);
        hubs.worlds[0].hub.allow_remote(RemoteLimits { calls_max: 40, ..RemoteLimits::default() });
        let limits = ApplicationLimits { grant_bytes: 300, ..ApplicationLimits::default() };
        let mut apps = Vec::new();
        for index in 0..HUBS {
            let app = hubs.worlds[index].app_with(&format!("app{index}"), SEND_BYTES, limits);
            hubs.worlds[index].hub.serve(app.number, &format!("name{index}")).unwrap();
            apps.push(app);
        }
        for (index, app) in apps.iter().enumerate() {
            let hub = &mut hubs.worlds[index].hub;
            for to in 0..HUBS {
                hub.target(app.number, &format!("name{to}")).unwrap();
            }
            hub.target(app.number, "elsewhere").unwrap();
        }
        let (open, given_up) = (vec![HashSet::new(); HUBS], vec![HashSet::new(); HUBS]);
        let (served, carried) = (vec![Vec::new(); HUBS], Vec::new());
        Chaos { hubs, rng: Rng::new(seed), apps, open, given_up, served, carried, ended: 0 }
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.rng.below(of.len() as u64) as usize])
    }

    fn step(&mut self) {
        let index = self.rng.below(HUBS as u64) as usize;
        match self.rng.below(6) {
            0 => self.calls(index),
            1 => self.answers(index),
            2 => self.transport_acts(),
            3 => drop(self.hubs.carry(index)),
            _ => {
                self.hubs.worlds[index].hub.turn(NOW);
                self.note(index);
            }
        }
    }

    /// Each call ends once.
    fn note(&mut self, index: usize) {
        let app = &mut self.apps[index];
        self.hubs.worlds[index].listen(app);
        for (call, ..) in app.ends() {
            let was_open = self.open[index].remove(&call) || self.given_up[index].remove(&call);
            assert!(was_open, "{call:?} has ended twice");
            self.ended += 1;
        }
        self.served[index].extend(app.take(|said| match said {
            Descriptor::Request(request) => Some(request.call),
            _ => None,
        }));
        app.said.clear();
    }

    fn calls(&mut self, index: usize) {
        let mut open: Vec<CallNumber> = self.open[index].iter().copied().collect();
        open.sort_unstable_by_key(|call| call.get());
        let call = self.any(&open);
        let partner = self.rng.below(HUBS as u64 + 1) as u32;
        let (app, world) = (&mut self.apps[index], &mut self.hubs.worlds[index]);
        if !world.hub.application(app.number).unwrap().has_room() {
            return;
        }
        match (self.rng.below(6), call) {
            (kind @ 0..=1, _) => {
                let (call, method) = (app.next_call(), if kind == 0 { GREET } else { CHAT });
                let message = match kind {
                    0 => app.write(&world.message("greet.Request", &[])),
                    _ => Contents::NONE,
                };
                let request =
                    petasos_abi::Request { partner, message, ..app.request(call, method) };
                world.handle(app, Descriptor::Request(request)).unwrap();
                self.open[index].insert(call);
            }
            (2..=3, Some(call)) => {
                let message = app.write(&world.message("greet.Request", &[]));
                world.handle(app, Descriptor::Message { call, message }).unwrap();
            }
            (4, Some(call)) => {
                let bytes = self.rng.below(300);
                world.handle(app, Descriptor::Grant { call, bytes }).unwrap();
            }
            (_, Some(call)) if self.rng.below(3) == 0 => {
                world.handle(app, Descriptor::Cancel { call }).unwrap();
                self.open[index].remove(&call);
                self.given_up[index].insert(call);
            }
            _ => {}
        }
    }

    fn answers(&mut self, index: usize) {
        let Some(call) = self.any(&self.served[index].clone()) else { return };
        let (app, world) = (&mut self.apps[index], &mut self.hubs.worlds[index]);
        if !world.hub.application(app.number).unwrap().has_room() {
            return;
        }
        let message = app.write(&world.message("greet.Response", &[]));
        let (status, has_not_run, metadata) = (0, false, Contents::NONE);
        let said = match self.rng.below(4) {
            0 => Descriptor::Message { call, message },
            1 => Descriptor::Grant { call, bytes: self.rng.below(300) },
            2 => Descriptor::Head { call, metadata },
            _ => Descriptor::End { call, status, has_not_run, message, metadata },
        };
        world.handle(app, said).unwrap();
    }

    fn transport_acts(&mut self) {
        if let Some(RemoteEvent::Begin(begun)) = self.hubs.worlds[0].hub.poll_remote() {
            self.carried.push(begun.call);
        }
        let text = encoded(&self.hubs.worlds[0], "greet.Request", "name", "ann");
        let call = self.any(&self.carried.clone());
        let hub = &mut self.hubs.worlds[0].hub;
        match (self.rng.below(8), call) {
            (0, _) => self.carried.extend(hub.begin_remote(incoming("Greet", Some(&text)), NOW)),
            (1, _) => self.carried.extend(hub.begin_remote(incoming("Chat", None), NOW)),
            (2, Some(call)) => hub.remote_end(call, success(&text), NOW),
            (3, Some(call)) => {
                let (result, has_not_run) = (Err(Status::aborted("as it likes")), false);
                let (metadata, trailers) = Default::default();
                let outcome = RemoteOutcome { result, has_not_run, metadata, trailers };
                hub.remote_end(call, outcome, NOW);
            }
            (4, Some(call)) => hub.remote_cancel(call, NOW),
            (5, Some(call)) if hub.has_room_for_remote(call) => {
                let bytes = if self.rng.below(8) == 0 { &[0xff][..] } else { &text };
                hub.remote_message(call, bytes, NOW);
            }
            (_, Some(call)) => {
                if matches!(hub.next_remote_item(call), Some(RemoteItem::End(_))) {
                    assert!(hub.next_remote_item(call).is_none(), "it is done");
                }
            }
            _ => {}
        }
    }

    /// Everybody ends what is open, and then nothing of any call is left. Gives how many have
    /// ended.
    fn end(mut self) -> usize {
        for _ in 0..3 {
            self.settle();
            for index in 0..HUBS {
                for call in std::mem::take(&mut self.served[index]) {
                    let (message, metadata) = (Contents::NONE, Contents::NONE);
                    let (status, has_not_run) = (5, false);
                    let end = Descriptor::End { call, status, has_not_run, message, metadata };
                    self.hubs.worlds[index].handle(&self.apps[index], end).unwrap();
                }
                for call in self.open[index].clone() {
                    let grant = Descriptor::Grant { call, bytes: 1 << 30 };
                    self.hubs.worlds[index].handle(&self.apps[index], grant).unwrap();
                }
            }
            self.settle();
            self.hubs.worlds[0].hub.fail_remote(&Status::unavailable("it is over"), NOW);
            for call in std::mem::take(&mut self.carried) {
                while self.hubs.worlds[0].hub.next_remote_item(call).is_some() {}
            }
            self.settle();
        }
        for (index, open) in self.open.iter().enumerate() {
            assert!(open.is_empty(), "{open:?} of {index} are lost");
        }
        self.hubs.assert_idle();
        for (world, app) in self.hubs.worlds.iter_mut().zip(&self.apps) {
            let counts = world.hub.application(app.number).unwrap().datapath().counts();
            assert_eq!((counts.queued, counts.held), (0, 0));
            assert_eq!(counts.entered, counts.left + counts.void);
        }
        self.ended
    }

    fn settle(&mut self) {
        let [one, two, three] = &mut self.apps[..] else { panic!("three hubs") };
        let mut none: Vec<(usize, &mut App)> = vec![(0, one), (1, two), (2, three)];
        self.hubs.run(&mut none);
        while let Some(event) = self.hubs.worlds[0].hub.poll_remote() {
            if let RemoteEvent::Begin(begun) = event {
                self.carried.push(begun.call);
            }
        }
        (0..HUBS).for_each(|index| self.note(index));
    }
}

#[test]
fn whatever_all_hubs_do_each_call_ends_once_and_nothing_is_left() {
    let mut ended = 0;
    for seed in 0..300 {
        let mut chaos = Chaos::new(seed);
        for _ in 0..600 {
            chaos.step();
        }
        ended += chaos.end();
    }
    assert!(ended > 3000, "{ended}");
}
