//! In steady state a unary call between two applications allocates nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "hub/support.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use std::alloc::System;

use petasos_abi::{Contents, Descriptor, Released, Request};
use petasos_message::Leaf;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What is called and answered, from places of send heaps that are used again.
struct Rounds {
    world: World,
    client: App,
    server: App,
    request: Contents,
    response: Contents,
}

impl Rounds {
    fn new() -> Rounds {
        let mut world = World::new();
        let (mut client, mut server) = world.pair();
        for number in [client.number, server.number] {
            let null = petasos_engines::find("null").unwrap().make("{}", None).unwrap();
            world.hub.application(number).unwrap().attach(0, null.into()).unwrap();
        }
        let text = Leaf::Text("thirty-two bytes of text, a name");
        let request = client.write(&world.message("greet.Request", &[("name", text)]));
        let response = server.write(&world.message("greet.Response", &[("text", text)]));
        Rounds { world, client, server, request, response }
    }

    /// Sixteen calls; how many succeed.
    fn round(&mut self) -> usize {
        for _ in 0..16 {
            let call = self.client.next_call();
            let request = Request { message: self.request, ..self.client.request(call, GREET) };
            self.world.handle(&self.client, Descriptor::Request(request)).unwrap();
        }
        while self.world.turn(NOW) {}
        while let Some(said) = self.poll(self.server.number) {
            let Descriptor::Request(request) = said else { continue };
            let (call, message, metadata) = (request.call, self.response, Contents::NONE);
            let end = Descriptor::End { call, status: 0, has_not_run: false, message, metadata };
            self.world.handle(&self.server, end).unwrap();
            self.world.handle(&self.server, released(request.message)).unwrap();
        }
        while self.world.turn(NOW) {}
        let mut ended = 0;
        while let Some(said) = self.poll(self.client.number) {
            let Descriptor::End { status: 0, message, .. } = said else { continue };
            self.world.handle(&self.client, released(message)).unwrap();
            ended += 1;
        }
        ended
    }

    fn poll(&mut self, number: petasos_engine::Application) -> Option<Descriptor> {
        self.world.hub.application(number).unwrap().poll_descriptor()
    }
}

fn released(message: Contents) -> Descriptor {
    let mut released = Released::new();
    released.push(message.offset).unwrap();
    Descriptor::Release(released)
}

#[test]
fn a_unary_call_allocates_nothing() {
    let mut rounds = Rounds::new();
    (0..100).for_each(|_| assert_eq!(rounds.round(), 16));
    let region = Region::new(ALLOCATOR);
    let ended: usize = (0..100).map(|_| rounds.round()).sum();
    let change = region.change();
    assert_eq!(ended, 1600);
    assert_eq!(change.allocations + change.reallocations, 0, "{change:?}");
}
