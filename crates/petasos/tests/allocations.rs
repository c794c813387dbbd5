//! In steady state a unary call allocates nothing, and neither do its messages. A loop that has
//! ended leaves nothing behind that grows.

mod greeter;

use std::alloc::System;
use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Mutex;

use greeter::blob;
use greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use petasos::config::{LocalConfig, LocalPolicy};
use petasos::{Loop, LoopConfig, Msg, Request, Response, Status};
use petasos_base::{Clock, VirtualClock};
use petasos_endpoint::{Endpoint, EndpointConfig, SessionOffer};
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
    check(roomy, &[0, 32, 300, 2_000, 10_000, 65_536]);
}

/// Stretches of calls between two loops: those whose allocations do not count, those that are
/// judged, and how many of these may have allocations. On a busy host timers and packets pile up,
/// and what holds them grows a few times, such as each of the timer wheel's 256 slots.
const WARM_UP: usize = 10;
const STRETCHES: usize = 50;
const UNCLEAN_MAX: usize = STRETCHES / 10;
/// Calls of a stretch, by as many tasks.
const TASKS: usize = 4;
const CALLS_OF_TASK: usize = 50;

/// A loop that is the thread's only while it acts.
struct Aside(Loop);

impl Aside {
    /// As a program's, but without a node, whose thread would allocate at every heartbeat.
    fn new(config: &LoopConfig) -> Aside {
        let io = config.open().expect("loopback has ports");
        let event_loop = Loop::over(config.endpoint.clone(), io, Clock::system());
        let event_loop = event_loop.expect("the other loop has stepped aside");
        event_loop.runtime().step_aside();
        Aside(event_loop)
    }

    fn act<T>(&self, act: impl FnOnce(&Loop) -> T) -> T {
        self.0.runtime().step_in();
        let result = act(&self.0);
        self.0.runtime().step_aside();
        result
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // After a panic, the other loop may still be the thread's.
        self.0.runtime().step_aside();
        self.0.runtime().step_in();
    }
}

/// Two loops on loopback, whose sessions the test sets up.
struct Pair {
    greeter: GreeterClient,
    client: Aside,
    server: Aside,
    /// Sessions that the client has asked for.
    asked: Rc<RefCell<Vec<SessionOffer>>>,
    local: LocalPolicy,
}

impl Pair {
    fn new(local: LocalPolicy, build: Build) -> Pair {
        let io = LocalConfig { local, ..LocalConfig::default() };
        let config = LoopConfig { io, ..LoopConfig::default() };
        let (client, server) = (Aside::new(&config), Aside::new(&config));
        let served = server.act(|server| server.serve(GreeterServer::new(Copying(build))));
        served.expect("it is the only service");
        let asked = Rc::new(RefCell::new(Vec::new()));
        let dialled = asked.clone();
        client.0.runtime().dial_with(Box::new(move |endpoint, server, slots| {
            let offer = endpoint.open_session(server.address, None);
            let offer = offer.map_err(|error| error.to_string())?;
            let mut offer = offer.ok_or("no room for another session")?;
            offer.params.slots = slots as u8;
            let session = offer.session;
            dialled.borrow_mut().push(offer);
            Ok(session)
        }));
        let address = server.0.runtime().endpoint_address();
        let greeter = GreeterClient::new(client.act(|client| client.channel(address)));
        Pair { greeter, client, server, asked, local }
    }

    fn turn(&self) {
        self.client.act(|client| client.run_turns(1));
        while let Some(offer) = self.asked.borrow_mut().pop() {
            self.set_up(&offer);
        }
        self.server.act(|server| server.run_turns(1));
    }

    /// As nodes do it.
    fn set_up(&self, offer: &SessionOffer) {
        let (ip, server) = (Ipv4Addr::LOCALHOST.into(), &self.server);
        let accept = |server: &mut _| Endpoint::accept_session(server, &offer.params, ip, None);
        let granted = server.act(|server| server.runtime().with_endpoint(accept));
        let granted = granted.expect("it serves");
        assert_eq!(granted.local.is_some(), self.local == LocalPolicy::Auto, "the way is as meant");
        let establish = |client: &mut _| Endpoint::establish_session(client, offer, &granted, ip);
        let ready = self.client.act(|client| client.runtime().with_endpoint(establish));
        ready.expect("there is a way");
    }

    /// What a stretch of calls allocates, at both ends.
    fn of_calls(&self, build: Build, bytes: &[u8]) -> usize {
        let tasks: Vec<_> = (0..TASKS).map(|_| self.spawn(build, bytes.to_vec())).collect();
        let region = Region::new(ALLOCATOR);
        // A task holds its half, also if it panics, until it ends.
        while tasks.iter().any(|calls| Rc::strong_count(calls) > 1) {
            self.turn();
        }
        let allocations = region.change().allocations;
        assert!(tasks.iter().all(|calls| calls.get() == CALLS_OF_TASK), "a call has failed");
        allocations
    }

    /// A task that makes calls; how many have been answered.
    fn spawn(&self, build: Build, bytes: Vec<u8>) -> Rc<Cell<usize>> {
        let calls = Rc::new(Cell::new(0));
        let (greeter, counted) = (self.greeter.clone(), calls.clone());
        let task = async move {
            while counted.get() < CALLS_OF_TASK {
                let echoed = greeter.echo(build(&bytes)).await.expect("the handler answers");
                assert_eq!(echoed.bytes().len(), bytes.len());
                counted.set(counted.get() + 1);
            }
        };
        self.client.act(|client| client.spawn(task));
        calls
    }

    fn check(&self, build: Build, sizes: &[usize]) {
        for len in sizes {
            let bytes = vec![7; *len];
            for _ in 0..WARM_UP {
                self.of_calls(build, &bytes);
            }
            let all: Vec<_> = (0..STRETCHES).map(|_| self.of_calls(build, &bytes)).collect();
            let unclean: Vec<_> = all.into_iter().filter(|count| *count > 0).collect();
            let few = unclean.len() <= UNCLEAN_MAX;
            assert!(few, "{len} bytes: of {STRETCHES} stretches, some allocate: {unclean:?}");
        }
    }
}

/// At the client and at the server.
#[test]
fn unary_calls_between_loops_allocate_nothing() {
    let _alone = ONE_AT_A_TIME.lock().expect("the other tests have passed");
    for (name, local) in [("UDP", LocalPolicy::Never), ("rings", LocalPolicy::Auto)] {
        println!("over {name}");
        Pair::new(local, blob).check(blob, &[0, 32, 300, 2_000, 3_500]);
        Pair::new(local, roomy).check(roomy, &[0, 32, 300, 2_000, 10_000, 65_536]);
    }
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
