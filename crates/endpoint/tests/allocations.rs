//! In steady state an RPC allocates nothing, on either side.

mod joined;
mod shim;

use std::alloc::System;

use joined::*;
use petasos_endpoint::{CallSettings, Completion, Context, MsgBuf, Payload, Routing, SessionId};
use shim::Ends;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Starts the next call on the same buffer.
fn again(client: &mut Client, cx: &mut Context<Client>, completion: Completion<'_>) {
    let response = completion.result.expect("the hub loses nothing");
    assert_eq!(response.len(), completion.request.len());
    if let Payload::Buffer(buf) = response {
        cx.free(buf);
    }
    if completion.tag == 0 {
        cx.free(completion.request);
        client.outcomes.push((0, Ok(Vec::new())));
        return;
    }
    let (session, request, tag) = (completion.session, completion.request, completion.tag - 1);
    cx.enqueue_request(session, ECHO, request, again, tag).expect("the slot has become free");
}

/// Completes `calls` RPCs of `bytes` on every slot; gives the allocations made meanwhile.
fn allocations(pair: &mut Joined, bytes: usize, calls: u64) -> usize {
    let session = pair.session;
    for _ in 0..8 {
        let cx = pair.client.context();
        let request = cx.alloc(bytes).expect("the pool has room");
        let call = cx.enqueue_request(session, ECHO, request, again, calls);
        call.expect("the session is ready");
    }
    pair.client.state_mut().outcomes.clear();
    let region = Region::new(ALLOCATOR);
    while pair.client.state().outcomes.len() < 8 {
        pair.run(1);
    }
    region.change().allocations
}

/// How many RPCs of so many bytes fill pools, queues, and tables of what is kept for a while, and
/// how many are counted.
fn rounds(bytes: usize) -> (u64, u64) {
    if bytes > 10_000 { (1_000, 300) } else { (10_000, 2_000) }
}

/// One test only: the counter sees every thread of the process, the test runner's as well.
#[test]
fn rpcs_allocate_nothing_in_steady_state() {
    let region = Region::new(ALLOCATOR);
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(region.change().allocations > 0, "the counter counts");
    check(&mut Joined::new(), 1448);
    // A tag takes 16 bytes of the packet.
    check(&mut Joined::sealed(|_| {}), 1432);
    check_group();
}

/// Starts the next call to the group.
fn again_to_group(client: &mut Routed, cx: &mut Context<Routed>, completion: Completion<'_>) {
    let response = completion.result.expect("the hub loses nothing");
    assert_eq!(response.len(), completion.request.len());
    if let Payload::Buffer(buf) = response {
        cx.free(buf);
    }
    client.left -= 1;
    match client.left {
        0 => cx.free(completion.request),
        _ => routed(client, cx, completion.request),
    }
}

/// A client of a group.
struct Routed {
    session: Option<SessionId>,
    routing: Routing,
    left: u64,
}

fn routed(client: &mut Routed, cx: &mut Context<Routed>, request: MsgBuf) {
    let session = client.session.expect("it is attached");
    let settings = CallSettings::default();
    let call =
        cx.enqueue_routed(session, ECHO, request, again_to_group, 0, &settings, client.routing);
    call.expect("there is room");
}

/// Completes `calls` RPCs of `bytes` to a group, one at a time; gives the allocations made
/// meanwhile, at both ends.
fn group_allocations(ends: &mut Ends<Routed, Server>, bytes: usize, calls: u64) -> usize {
    let (state, cx) = ends.client.split();
    state.left = calls;
    let request = cx.alloc(bytes).expect("the pool has room");
    routed(state, cx, request);
    let region = Region::new(ALLOCATOR);
    while ends.client.state().left > 0 {
        ends.time.set(ends.time.now().plus_nanos(1_000));
        ends.turn();
    }
    region.change().allocations
}

/// Nothing is allocated, or only once: the test runner says after a minute that a test runs.
fn assert_none(what: &str, mut allocations: impl FnMut() -> usize) {
    let made = allocations();
    assert!(made == 0 || allocations() == 0, "{what}: {made} allocations, and more");
}

/// Calls that run at once, and calls that ask for a worker first.
fn check_group() {
    let sealed = Some(petasos_control::Cipher::Aes128Gcm);
    for (is_idempotent, cipher) in [(true, None), (false, None), (true, sealed), (false, sealed)] {
        let routing = Routing { is_idempotent, ..Routing::default() };
        let client = Routed { session: None, routing, left: 0 };
        let mut ends = Ends::new(client, Server::default(), cipher);
        register(&mut ends.worker);
        ends.client.state_mut().session = Some(ends.session);
        for bytes in [0, 32, 1024, 1025, 8_000, 65_536] {
            let (warming, calls) = rounds(bytes);
            group_allocations(&mut ends, bytes, warming);
            let what = format!("{bytes} bytes {routing:?} {cipher:?}");
            assert_none(&what, || group_allocations(&mut ends, bytes, calls));
        }
    }
}

/// With messages of no bytes to 64 KiB; `bytes_max` fit one packet.
fn check(pair: &mut Joined, bytes_max: usize) {
    // The first run fills pools and queues, and lets the test runner's own threads settle.
    allocations(pair, 32, 10_000);
    for bytes in [0, 32, 488, 489, bytes_max, bytes_max + 1, 8_000, 65_536] {
        let (warming, calls) = rounds(bytes);
        allocations(pair, bytes, warming);
        assert_none(&format!("{bytes} bytes"), || allocations(pair, bytes, calls));
    }
}
