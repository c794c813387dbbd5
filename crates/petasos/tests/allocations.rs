//! In steady state a unary call allocates nothing, and neither do its messages. A loop that has
//! ended leaves nothing behind that grows.

mod greeter;

use std::alloc::System;
use std::sync::Mutex;

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

/// A loop that serves itself.
fn event_loop(build: Build) -> Loop {
    let config = EndpointConfig { seed: Some(5), ..EndpointConfig::default() };
    let port = Hub::direct(MemoryConfig::default()).port();
    let event_loop = Loop::over(config, port, Clock::Virtual(VirtualClock::default()));
    let event_loop = event_loop.expect("this thread has no other loop");
    event_loop.serve(GreeterServer::new(Copying(build))).expect("it is the only service");
    event_loop
}

fn check(build: Build, sizes: &[usize]) {
    let event_loop = event_loop(build);
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

/// The counter sees every thread of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn unary_calls_allocate_nothing() {
    let _alone = ONE_AT_A_TIME.lock().expect("the other test has passed");
    let region = Region::new(ALLOCATOR);
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(region.change().allocations > 0, "the counter counts");
    // Without room, fields of `ADOPT_BYTES_MIN` and more are sent from where they lie (M24): that
    // takes owners.
    check(blob, &[0, 32, 300, 2_000, 3_500]);
    check(roomy, &[0, 32, 300, 2_000, 10_000, 60_000]);
}

/// Serves some calls with a loop, which then ends.
fn run_one_loop() {
    let event_loop = event_loop(blob);
    let client = GreeterClient::new(event_loop.channel_to_itself());
    let calls: Vec<_> = (0..100).map(|_| client.echo(blob(&[7; 300]))).collect();
    event_loop.block_on(async move {
        for call in calls {
            call.await.expect("the handler answers");
        }
    });
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a process sees its descriptors").count()
}

/// Programs make channels with loops of their own again and again.
#[test]
fn ended_loops_leave_no_descriptor_and_little_memory() {
    const LOOPS: usize = 50;
    const LEFT_BYTES_MAX: usize = 4096;
    let _alone = ONE_AT_A_TIME.lock().expect("the other test has passed");
    (0..3).for_each(|_| run_one_loop());
    let (descriptors, region) = (open_descriptors(), Region::new(ALLOCATOR));
    (0..LOOPS).for_each(|_| run_one_loop());
    let change = region.change();
    let left = change.bytes_allocated.saturating_sub(change.bytes_deallocated) / LOOPS;
    assert!(left <= LEFT_BYTES_MAX, "{left} bytes of each loop are left");
    assert_eq!(open_descriptors(), descriptors);
}
