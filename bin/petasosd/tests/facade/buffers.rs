//! Long messages in buffers of the send heap, which are not copied on their way to the service
//! (ADR 17, 5).

use std::sync::{Arc, Mutex};

use petasos::memory::Buffer;
use petasos::{Channel, Loop, Msg, Request, Response, Sender, Server, Status, Streaming};

use crate::replaced::chain::Chain;
use crate::support::managed::{Item, Work, WorkClient, WorkServer};
use crate::support::*;

/// So long are messages.
const BYTES: usize = 8 << 20;
const ROUNDS: i64 = 12;

/// The bytes of a message with this number.
fn value(number: i64, at: usize) -> u8 {
    (at as i64 * 7 + number) as u8
}

fn fill(buffer: &mut Buffer, number: i64) {
    buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = value(number, at));
}

fn is_filled(blob: &[u8], number: i64) -> bool {
    blob.len() == BYTES && (0..BYTES).all(|at| blob[at] == value(number, at))
}

/// Bytes of memory that is shared and writable, around an address: what a send heap has.
fn heap_bytes(address: *const u8) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let shared = maps.lines().filter(|line| line.contains(" rw-s ")).map(|line| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        [start, end].map(|text| usize::from_str_radix(text, 16).unwrap())
    });
    let mut runs: Vec<[usize; 2]> = Vec::new();
    for [start, end] in shared {
        match runs.last_mut() {
            Some(last) if last[1] == start => last[1] = end,
            _ => runs.push([start, end]),
        }
    }
    let run = runs.iter().find(|[start, end]| (*start..*end).contains(&address.addr()));
    run.map_or(0, |[start, end]| end - start)
}

/// Whether a heap has memory for short messages, and for buffers, but for no copy of a long one: an
/// extent for a buffer has room in front of it.
fn has_no_copies(heap_bytes: usize) -> bool {
    let (short, buffer) = (1 << 20, BYTES + (1 << 20));
    heap_bytes > short && (heap_bytes - short).is_multiple_of(buffer)
}

/// A buffer that the service reads, filled. There may be no memory for it yet: it is asked for when
/// the loop turns.
fn shared(event_loop: &Loop, client: &WorkClient, channel: &Channel, number: i64) -> Buffer {
    for _ in 0..1000 {
        let mut buffer = channel.buffer(BYTES);
        if buffer.is_shared() {
            fill(&mut buffer, number);
            return buffer;
        }
        event_loop.block_on(async { client.echo(item("turn", 0)).await }).unwrap();
    }
    panic!("the heap has no memory for a buffer");
}

#[test]
fn long_requests_in_buffers_are_not_copied_into_the_heap() {
    let daemon = Daemon::start("buffers", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let channel = event_loop.channel(server.local_address().unwrap());
    let client = WorkClient::new(channel.clone());
    event_loop.block_on(async { client.echo(item("first", 0)).await }).unwrap();
    assert!(!channel.buffer(1000).is_shared(), "it is not worth it");
    let echo = |number, buffer: Buffer| {
        let mut message = item("buffer", number);
        message.set_blob(buffer);
        let echoed = event_loop.block_on(async { client.echo(message).await }).unwrap();
        assert!(is_filled(echoed.blob(), number), "message {number}");
    };
    let mut at = core::ptr::null();
    for number in 0..ROUNDS {
        let buffer = shared(&event_loop, &client, &channel, number);
        at = buffer.as_ptr();
        echo(number, buffer);
    }
    let before = heap_bytes(at);
    assert!(has_no_copies(before), "{before} bytes");
    // What lies elsewhere is copied into the heap, and what is sent twice at a time as well.
    let mut message = item("elsewhere", ROUNDS);
    message.set_blob((0..BYTES).map(|at| value(ROUNDS, at)).collect::<Vec<_>>());
    let echoed = event_loop.block_on(async { client.echo(message).await }).unwrap();
    assert!(is_filled(echoed.blob(), ROUNDS) && !has_no_copies(heap_bytes(at)));
}

#[test]
fn bytes_of_a_buffer_may_be_in_several_calls_at_a_time() {
    let daemon = Daemon::start("buffers-twice", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let channel = event_loop.channel(server.local_address().unwrap());
    let client = WorkClient::new(channel.clone());
    event_loop.block_on(async { client.echo(item("first", 0)).await }).unwrap();
    let bytes = shared(&event_loop, &client, &channel, 5).freeze();
    event_loop.block_on(async {
        let call = |text| {
            let mut message = item(text, 5);
            message.set_blob(&bytes);
            client.echo(message)
        };
        for _ in 0..3 {
            let calls = ["one", "another one", "and a third"].map(call);
            for (call, text) in calls.into_iter().zip(["one", "another one", "and a third"]) {
                let echoed = call.await.unwrap();
                assert!(is_filled(echoed.blob(), 5) && echoed.text() == text);
            }
        }
    });
    // The service ends, and what was sent through it is still there.
    drop(daemon);
    assert!(is_filled(&bytes, 5));
}

/// Buffers of a service that is gone stay as they are, and are copied for the next one.
#[test]
fn buffers_outlive_their_service() {
    // The client does not move while its loop does not turn.
    let options = ["--drain-timeout", "1"];
    let mut chain = Chain::start("buffers-replaced", &options);
    let server = chain.daemon.server("server");
    let event_loop = chain.daemon.event_loop("client");
    let channel = event_loop.channel(server.local_address().unwrap());
    let client = WorkClient::new(channel.clone());
    let mut kept = Vec::new();
    for round in 0..3 {
        let bytes = shared(&event_loop, &client, &channel, round).freeze();
        kept.push(bytes);
        chain.replace(&options);
        chain.await_former();
        for (number, bytes) in (0..).zip(&kept) {
            let mut message = item("kept", number);
            message.set_blob(bytes);
            let echoed = event_loop.block_on(async { client.echo(message).await }).unwrap();
            assert!(is_filled(echoed.blob(), number), "message {number} in round {round}");
        }
    }
    drop((channel, client, event_loop, server, chain));
    assert!((0..).zip(&kept).all(|(number, bytes)| is_filled(bytes, number)));
}

/// Answers with bytes in a buffer of the heap, if there is one, and notes how long the heap is.
#[derive(Clone, Default)]
struct Maker(Arc<Mutex<Vec<usize>>>);

impl Work for Maker {
    async fn echo(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let mut buffer = Buffer::for_response(&request, BYTES);
        let number = request.number();
        let mut response: Msg<Item> = item("made", number);
        if buffer.is_shared() {
            self.0.lock().unwrap().push(heap_bytes(buffer.as_ptr()));
            fill(&mut buffer, number);
            response.set_blob(buffer);
        }
        Ok(Response::new(response))
    }

    async fn fail(&self, _: Request<Item>) -> Result<Response<Item>, Status> {
        Err(Status::unimplemented("it only makes"))
    }

    async fn hold(&self, _: Request<Item>) -> Result<Response<Item>, Status> {
        Err(Status::unimplemented("it only makes"))
    }

    async fn count(&self, _: Request<Item>, _: Sender<Item>) -> Result<(), Status> {
        Err(Status::unimplemented("it only makes"))
    }

    async fn sum(&self, _: Streaming<Item>) -> Result<Response<Item>, Status> {
        Err(Status::unimplemented("it only makes"))
    }

    async fn chat(&self, _: Streaming<Item>, _: Sender<Item>) -> Result<(), Status> {
        Err(Status::unimplemented("it only makes"))
    }
}

#[test]
fn long_responses_in_buffers_are_not_copied_into_the_heap() {
    let daemon = Daemon::start("buffers-responses", None);
    let maker = Maker::default();
    let server = Server::builder().add(WorkServer::new(maker.clone())).listen("127.0.0.1:0");
    let server = server.service(daemon.service("maker")).start().unwrap();
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    let mut made = 0;
    for number in 0..100 {
        let echoed = event_loop.block_on(async { client.echo(item("make", number)).await });
        let echoed = echoed.unwrap();
        let is_made = !echoed.blob().is_empty();
        assert!(!is_made || is_filled(echoed.blob(), number), "message {number}");
        made += u32::from(is_made);
    }
    assert!(made > 90, "the heap has memory soon: {made}");
    let last = *maker.0.lock().unwrap().last().unwrap();
    assert!(has_no_copies(last), "{last} bytes");
}
