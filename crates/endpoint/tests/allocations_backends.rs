//! In steady state an RPC allocates nothing over sockets and rings either, on both sides.

mod common;

use std::alloc::System;
use std::net::SocketAddr;

use common::{ECHO, localhost, node, watchdog};
use petasos_endpoint::{
    Backend, Clock, Completion, Context, Endpoint, EndpointConfig, LocalConfig, LocalIo, Node,
    Payload, Request, SessionId, SessionState,
};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_netio_udp::{UdpConfig, UdpIo};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SLOTS: usize = 8;
const STRETCHES_MAX: usize = 200;

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
    _nodes: [Node; 2],
}

impl Pair {
    fn over(io: fn() -> Backend) -> Pair {
        let nodes = [node(Some(localhost())), node(None)];
        let address = nodes[0].local_address().expect("it listens");
        // Packets as between hosts, so that longer messages take many.
        let mut config = EndpointConfig::default();
        config.session.datagram_bytes_max = 1472;
        let mut server = Endpoint::new(config.clone(), io(), Clock::system(), ());
        server.register(ECHO, echo);
        server.attach(&nodes[0]).expect("the node runs");
        let mut client = Endpoint::new(config, io(), Clock::system(), Done::default());
        client.attach(&nodes[1]).expect("the node runs");
        let session = client.connect(address).expect("there is room");
        while client.context().session_state(session) != SessionState::Ready {
            client.run_once();
            server.run_once();
            assert_eq!(client.context().session_error(session), None);
        }
        Pair { client, server, session, _nodes: nodes }
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

    /// In many short stretches, one of which must be without any: the nodes' threads allocate when
    /// they hear of each other, and a host that keeps the test off its core brings timeouts, whose
    /// places in the timer wheel grow a few times.
    fn check(&mut self) {
        for bytes in [32, 1000, 9_000, 65_536] {
            let calls = if bytes > 10_000 { 20 } else { 100 };
            let least =
                (0..STRETCHES_MAX).map(|_| self.allocations(bytes, calls)).find(|n| *n == 0);
            assert_eq!(least, Some(0), "each stretch of calls with {bytes} bytes allocates");
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
