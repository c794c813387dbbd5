//! In steady state a unary call allocates nothing, and neither do its messages.

mod greeter;

use std::alloc::System;

use greeter::blob;
use greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use petasos::{Loop, Msg, Request, Response, Status};
use petasos_base::{Clock, VirtualClock};
use petasos_endpoint::EndpointConfig;
use petasos_netio::memory::{Hub, MemoryConfig};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLS: usize = 1000;

/// Builds a message with these bytes.
type Build = fn(&[u8]) -> Msg<Blob>;

/// Answers with a message of its own.
struct Copying(Build);

impl Greeter for Copying {
    async fn greet(&self, _: Request<Name>) -> Result<Response<Greeting>, Status> {
        Err(Status::unimplemented("it only copies"))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new((self.0)(request.bytes())))
    }
}

/// What `CALLS` calls allocate.
fn of_calls(event_loop: &Loop, client: &GreeterClient, build: Build, bytes: &[u8]) -> usize {
    let client = client.clone();
    let bytes = bytes.to_vec();
    let task = event_loop.spawn(async move {
        let region = Region::new(ALLOCATOR);
        for _ in 0..CALLS {
            let echoed = client.echo(build(&bytes)).await.expect("the handler answers");
            assert_eq!(echoed.bytes().len(), bytes.len());
        }
        region.change().allocations
    });
    event_loop.block_on(task).expect("it does not panic")
}

fn check(build: Build, sizes: &[usize]) {
    let config = EndpointConfig { seed: Some(5), ..EndpointConfig::default() };
    let port = Hub::direct(MemoryConfig::default()).port();
    let event_loop = Loop::over(config, port, Clock::Virtual(VirtualClock::default()));
    let event_loop = event_loop.expect("this thread has no other loop");
    event_loop.serve(GreeterServer::new(Copying(build))).expect("it is the only service");
    let client = GreeterClient::new(event_loop.channel_to_itself());
    for bytes in sizes {
        let bytes = vec![7; *bytes];
        of_calls(&event_loop, &client, build, &bytes);
        // Threads of the test runner may allocate, too, but hardly each time.
        let calls = (0..3)
            .map(|_| of_calls(&event_loop, &client, build, &bytes))
            .min()
            .expect("three runs");
        assert_eq!(calls, 0, "with {} bytes", bytes.len());
    }
}

/// A message that is built in the room that it asked for.
fn roomy(bytes: &[u8]) -> Msg<Blob> {
    let mut message = Msg::<Blob>::with_capacity(bytes.len() + 64);
    message.edit().set_bytes(bytes);
    message
}

/// One test only: the counter sees every thread of the process.
#[test]
fn unary_calls_allocate_nothing() {
    let region = Region::new(ALLOCATOR);
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(region.change().allocations > 0, "the counter counts");
    // Without room, fields of `ADOPT_BYTES_MIN` and more are sent from where they lie (M24): that
    // takes owners.
    check(blob, &[0, 32, 300, 2_000, 3_500]);
    check(roomy, &[0, 32, 300, 2_000, 10_000, 60_000]);
}
