//! In steady state an RPC allocates nothing over sockets and rings either, on both sides.
//!
//! There are no nodes: their threads allocate at every heartbeat, and the counter would see that.

mod common;

use std::alloc::System;
use std::net::SocketAddr;

use common::{ECHO, localhost, watchdog};
use petasos_endpoint::{
    Backend, Clock, Completion, Context, Endpoint, EndpointConfig, LocalConfig, LocalIo, Payload,
    Request, SessionId,
};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_netio_udp::{UdpConfig, UdpIo};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SLOTS: usize = 8;
/// Stretches whose allocations do not count, and those that are judged.
const WARM_UP: usize = 10;
const STRETCHES: usize = 50;
/// How many of these may have allocations.
const UNCLEAN_MAX: usize = STRETCHES / 10;

/// How many slots have done their calls.
#[derive(Default)]
struct Done(usize);

fn any() -> SocketAddr {
    SocketAddr::new(localhost(), 0)
}

fn udp() -> Backend {
    UdpIo::bind(any(), UdpConfig::default()).expect("loopback has ports").into()
}

fn shm() -> Backend {
    ShmIo::bind(any(), ShmConfig::default()).expect("names are free").into()
}

fn local() -> Backend {
    LocalIo::bind(any(), &LocalConfig::default()).expect("loopback has ports").into()
}

/// Starts the next call on the same buffer.
fn again(done: &mut Done, cx: &mut Context<Done>, completion: Completion<'_>) {
    let response = completion.result.expect("the server answers");
    assert_eq!(response.len(), completion.request.len());
    if let Payload::Buffer(buf) = response {
        cx.free(buf);
    }
    if completion.tag == 0 {
        cx.free(completion.request);
        done.0 += 1;
        return;
    }
    let (session, request, tag) = (completion.session, completion.request, completion.tag - 1);
    cx.enqueue_request(session, ECHO, request, again, tag).expect("the slot has become free");
}

/// Answers in the request's own buffer, if it has one.
fn echo(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    match request.payload {
        Payload::Frame(bytes) => cx.respond_with(request.handle, bytes),
        Payload::Buffer(buf) => cx.respond(request.handle, buf),
    }
}

struct Pair {
    client: Endpoint<Done>,
    server: Endpoint<()>,
    session: SessionId,
}

impl Pair {
    fn over(io: fn() -> Backend) -> Pair {
        // Packets as between hosts, so that longer messages take many.
        let mut config = EndpointConfig::default();
        config.session.datagram_bytes_max = 1472;
        let mut server = Endpoint::new(config.clone(), io(), Clock::system(), ());
        server.register(ECHO, echo);
        let mut client = Endpoint::new(config, io(), Clock::system(), Done::default());
        let to = server.local_address();
        let offer = client.open_session(to, None).expect("it is there").expect("there is room");
        let granted = server.accept_session(&offer.params, localhost(), None).expect("it accepts");
        client.establish_session(&offer, &granted, localhost()).expect("there is a way");
        let session = offer.session;
        Pair { client, server, session }
    }

    /// Completes `calls` RPCs of `bytes` on every slot; gives the allocations made meanwhile.
    fn allocations(&mut self, bytes: usize, calls: u64) -> usize {
        for _ in 0..SLOTS {
            let cx = self.client.context();
            let request = cx.alloc(bytes).expect("the pool has room");
            let begun = cx.enqueue_request(self.session, ECHO, request, again, calls);
            begun.expect("the session is ready");
        }
        self.client.state_mut().0 = 0;
        let region = Region::new(ALLOCATOR);
        while self.client.state().0 < SLOTS {
            self.client.run_once();
            self.server.run_once();
        }
        region.change().allocations
    }

    /// After a warm-up, which fills pools and queues, nearly every short stretch is without any.
    /// The rest: on a busy host timers and packets pile up, and what holds them grows a few times,
    /// such as each of the timer wheel's 256 slots.
    fn check(&mut self) {
        for bytes in [32, 1000, 9_000, 65_536] {
            let calls = if bytes > 10_000 { 20 } else { 100 };
            for _ in 0..WARM_UP {
                self.allocations(bytes, calls);
            }
            let all: Vec<_> = (0..STRETCHES).map(|_| self.allocations(bytes, calls)).collect();
            let unclean: Vec<_> = all.into_iter().filter(|count| *count > 0).collect();
            let few = unclean.len() <= UNCLEAN_MAX;
            assert!(few, "{bytes} bytes: of {STRETCHES} stretches, some allocate: {unclean:?}");
        }
    }
}

/// One test only: the counter sees every thread of the process.
#[test]
fn rpcs_over_sockets_and_rings_allocate_nothing_in_steady_state() {
    let _watchdog = watchdog("RPCs that are counted");
    let region = Region::new(ALLOCATOR);
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(region.change().allocations > 0, "the counter counts");
    for (name, io) in [("udp", udp as fn() -> Backend), ("shm", shm), ("local", local)] {
        println!("over {name}");
        Pair::over(io).check();
    }
}
