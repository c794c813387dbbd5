//! A transport, applications and peers that act at random, in any order.

use std::collections::HashSet;

use petasos_abi::{CallNumber, Descriptor};
use petasos_base::{Rng, Time};
use petasos_call::{Metadata, Status};
use petasos_service::{
    ApplicationLimits, Encoded, Incoming, ListenerId, RemoteCall, RemoteEvent, RemoteItem,
    RemoteLimits, RemoteOutcome,
};

use crate::remote::native;
use crate::support::*;

struct Chaos {
    world: World,
    rng: Rng,
    client: App,
    server: App,
    /// Calls of the client's that have not ended.
    open: HashSet<CallNumber>,
    /// Calls that it has given up: their ends may have been on their way.
    given_up: HashSet<CallNumber>,
    /// Calls that the transport has heard of, over or not.
    heard_of: Vec<RemoteCall>,
    /// Streams that the server was told of.
    served: Vec<CallNumber>,
    /// Calls of which the transport has a message for which there was no room.
    refused: HashSet<RemoteCall>,
    refusals: usize,
    now: Time,
}

impl Chaos {
    fn new(seed: u64) -> Chaos {
        let mut world = World::new();
        world.hub.allow_remote(RemoteLimits { calls_max: 40, ..RemoteLimits::default() });
        let (beyond_bytes_max, grant_bytes) = (4000, 300);
        let limits =
            ApplicationLimits { beyond_bytes_max, grant_bytes, ..ApplicationLimits::default() };
        let client = world.app_with("client", SEND_BYTES, limits);
        let server = world.app_with("server", SEND_BYTES, limits);
        world.hub.target(client.number, "elsewhere").unwrap();
        world.hub.serve(server.number, "greeter").unwrap();
        let (open, given_up, heard_of, served, refused) = Default::default();
        let (rng, now, refusals) = (Rng::new(seed), NOW, 0);
        Chaos {
            world,
            rng,
            client,
            server,
            open,
            given_up,
            heard_of,
            served,
            refused,
            refusals,
            now,
        }
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.rng.below(of.len() as u64) as usize])
    }

    fn some_bytes(&mut self) -> Vec<u8> {
        match self.rng.below(4) {
            0 => vec![0xff; 3],
            1 => Vec::new(),
            _ => [&[0x0a, 100][..], &[b'x'; 100]].concat(),
        }
    }

    fn step(&mut self) {
        match self.rng.below(4) {
            0 => self.client_acts(),
            1 => self.server_acts(),
            2 => self.transport_hears(),
            _ => self.transport_says(),
        }
        if self.rng.below(3) == 0 {
            self.now = self.now.plus_nanos(self.rng.below(50_000_000));
            self.world.turn(self.now);
            self.world.listen(&mut self.client);
            self.world.listen(&mut self.server);
            self.note();
        }
    }

    /// Each call ends once.
    fn note(&mut self) {
        for (call, ..) in self.client.ends() {
            let was_open = self.open.remove(&call) || self.given_up.remove(&call);
            assert!(was_open, "{call:?} has ended twice");
        }
        self.served.extend(self.server.take(|said| match said {
            Descriptor::Request(request) => Some(request.call),
            _ => None,
        }));
        self.client.said.clear();
        self.server.said.clear();
    }

    fn client_acts(&mut self) {
        if !self.world.hub.application(self.client.number).unwrap().has_room() {
            return;
        }
        let mut open: Vec<CallNumber> = self.open.iter().copied().collect();
        open.sort_unstable_by_key(|call| call.get());
        let call = self.any(&open);
        match (self.rng.below(6), call) {
            (0, _) => {
                let call = self.world.call(&mut self.client, "ann");
                self.open.insert(call);
            }
            (1, _) => {
                let call = self.client.next_call();
                let request = self.client.request(call, CHAT);
                self.world.handle(&self.client, Descriptor::Request(request)).unwrap();
                self.open.insert(call);
            }
            (2, Some(call)) => {
                let message = self.client.write(&self.world.message("greet.Request", &[]));
                self.world.handle(&self.client, Descriptor::Message { call, message }).unwrap();
            }
            (3, Some(call)) => {
                self.world.handle(&self.client, Descriptor::Close { call }).unwrap();
            }
            (4, Some(call)) => self.grant_some(call),
            (_, Some(call)) if self.rng.below(4) == 0 => {
                self.world.handle(&self.client, Descriptor::Cancel { call }).unwrap();
                self.open.remove(&call);
                let _ = self.world.hub.turn(NOW);
                self.world.listen(&mut self.client);
                self.client.said.retain(
                    |said| !matches!(said, Descriptor::End { call: of, .. } if *of == call),
                );
            }
            _ => {}
        }
    }

    fn server_acts(&mut self) {
        if !self.world.hub.application(self.server.number).unwrap().has_room() {
            return;
        }
        let Some(call) = self.any(&self.served.clone()) else { return };
        let message = self.server.write(&self.world.message("greet.Response", &[]));
        let metadata = petasos_abi::Contents::NONE;
        let (status, has_not_run) = (0, false);
        let said = match self.rng.below(4) {
            3 => return self.grant_some(call),
            0 => Descriptor::Message { call, message },
            1 => Descriptor::Head { call, metadata },
            _ => Descriptor::End { call, status, has_not_run, message, metadata },
        };
        self.world.handle(&self.server, said).unwrap();
    }

    /// The application at an end of a stream takes more of it.
    fn grant_some(&mut self, call: CallNumber) {
        let bytes = self.rng.below(300);
        let app = if self.open.contains(&call) { &self.client } else { &self.server };
        self.world.handle(app, Descriptor::Grant { call, bytes }).unwrap();
    }

    fn transport_hears(&mut self) {
        match self.world.hub.poll_remote() {
            Some(RemoteEvent::Begin(begun)) => self.heard_of.push(begun.call),
            Some(RemoteEvent::Room(call)) => self.offer_again(call),
            Some(RemoteEvent::Ready(_) | RemoteEvent::Cancel(_)) | None => {}
        }
        if let Some(call) = self.any(&self.heard_of.clone()) {
            let item = self.world.hub.next_remote_item(call);
            if matches!(item, Some(RemoteItem::End(_))) {
                assert!(self.world.hub.next_remote_item(call).is_none(), "it is done");
            }
        }
    }

    fn transport_says(&mut self) {
        let bytes = self.some_bytes();
        let is_stream = self.rng.below(2) == 0;
        if self.rng.below(3) == 0 {
            let incoming = Incoming {
                listener: ListenerId::default(),
                service: "greet.Greeter",
                method: if is_stream { "Chat" } else { "Greet" },
                message: (!is_stream).then_some(&bytes[..]),
                metadata: Metadata::new(),
                deadline: Time::NEVER,
                peer: "somebody",
                identity: None,
                is_sealed: false,
            };
            if let Ok(call) = self.world.hub.begin_remote(incoming, NOW) {
                self.heard_of.push(call);
            }
            return;
        }
        // Mostly of calls that are not over.
        let known = self.heard_of.len();
        let recent = if self.rng.chance(0.8) { known.min(6) } else { known };
        let recent = self.heard_of[known - recent..].to_vec();
        let Some(call) = self.any(&recent) else { return };
        let hub = &mut self.world.hub;
        let (metadata, trailers) = (Metadata::new(), Metadata::new());
        match self.rng.below(20) {
            0 => hub.remote_close(call, NOW),
            1 => hub.remote_cancel(call, NOW),
            2 => hub.remote_head(call, metadata, NOW),
            3 => {
                // Half of them are images of any content.
                let result = Ok(Some(match self.rng.chance(0.5) {
                    true => native(&bytes),
                    false => Encoded::Protobuf(&bytes),
                }));
                let outcome = RemoteOutcome { result, has_not_run: false, metadata, trailers };
                hub.remote_end(call, outcome, NOW);
            }
            4 => {
                let result = Err(Status::aborted("as it likes"));
                let outcome = RemoteOutcome { result, has_not_run: true, metadata, trailers };
                hub.remote_end(call, outcome, NOW);
            }
            _ => (0..4).for_each(|_| self.offer(call, &bytes)),
        }
    }

    /// An honest transport waits with the next message.
    fn offer(&mut self, call: RemoteCall, bytes: &[u8]) {
        if self.refused.contains(&call) {
            return;
        }
        match self.world.hub.has_room_for_remote(call) {
            true => self.world.hub.remote_message(call, bytes, NOW),
            false => {
                self.refused.insert(call);
                self.refusals += 1;
            }
        }
    }

    /// There is room for one that was refused, which is told once.
    fn offer_again(&mut self, call: RemoteCall) {
        assert!(self.refused.remove(&call), "{call:?} was not refused");
        self.offer(call, &[]);
    }

    fn run(&mut self) {
        self.world.run(&mut [&mut self.client, &mut self.server]);
        self.note();
    }

    /// The transport goes, and then nothing of any call is left. Gives how often there was no room.
    fn end(mut self) -> usize {
        self.run();
        self.world.hub.fail_remote(&Status::unavailable("it is over"), NOW);
        // Ends come behind what waits.
        for call in &self.open {
            let grant = Descriptor::Grant { call: *call, bytes: u64::MAX };
            self.world.handle(&self.client, grant).unwrap();
        }
        self.run();
        while let Some(event) = self.world.hub.poll_remote() {
            if let RemoteEvent::Room(call) = event {
                self.offer_again(call);
            }
        }
        self.run();
        assert!(self.refused.is_empty(), "{:?} wait for ever", self.refused);
        assert!(self.open.is_empty(), "{:?} are lost", self.open);
        for number in [self.client.number, self.server.number] {
            let counts = self.world.hub.application(number).unwrap().datapath().counts();
            assert_eq!((counts.queued, counts.held), (0, 0));
            assert_eq!(counts.entered, counts.left + counts.void);
            assert!(self.world.hub.application(number).unwrap().has_room());
        }
        for call in self.heard_of {
            assert!(self.world.hub.next_remote_item(call).is_none());
        }
        self.refusals
    }
}

#[test]
fn adr22_whatever_all_ends_do_each_call_ends_once_and_nothing_is_left() {
    let mut refusals = 0;
    for seed in 0..200 {
        let mut chaos = Chaos::new(seed);
        for _ in 0..400 {
            chaos.step();
        }
        refusals += chaos.end();
    }
    assert!(refusals > 200, "{refusals}");
}
