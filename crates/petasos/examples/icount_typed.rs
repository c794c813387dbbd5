//! What typed calls cost: echoes of 32 bytes, both ends in one loop over its own memory, on a
//! virtual clock with a fixed seed, so that instruction counts repeat exactly.
//!
//! `icount_typed N` completes N calls and prints one line of JSON; `icount_typed N messages` only
//! makes, encodes and reads their messages. `cargo xtask icount --typed` takes slopes of both.

#[path = "../tests/greeter/generated.rs"]
mod generated;

use std::cell::Cell;
use std::rc::Rc;

use generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use petasos::message::{ROOM_BYTES, buffer, recycle};
use petasos::{Loop, Msg, Request, Response, Status};
use petasos_base::{Clock, Time, VirtualClock};
use petasos_buf::MsgBuf;
use petasos_endpoint::EndpointConfig;
use petasos_netio::memory::{Hub, MemoryConfig};

const SESSIONS: usize = 8;
const SLOTS: usize = 8;
const BYTES: [u8; 32] = [7; 32];

struct Echo;

impl Greeter for Echo {
    async fn greet(&self, _: Request<Name>) -> Result<Response<Greeting>, Status> {
        Err(Status::unimplemented("it only echoes"))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        let mut response = Blob::new();
        response.edit().set_bytes(request.bytes());
        Ok(Response::new(response))
    }
}

fn request() -> Msg<Blob> {
    let mut request = Blob::new();
    request.edit().set_bytes(&BYTES[..]);
    request
}

/// What a caller does again and again, until `started` has reached the goal.
async fn call(client: GreeterClient, goal: u64, started: Rc<Cell<u64>>, over: Rc<Cell<u64>>) {
    while started.get() < goal {
        started.set(started.get() + 1);
        let response = client.echo(request()).await.expect("loopback loses nothing");
        assert_eq!(response.bytes().len(), BYTES.len());
        over.set(over.get() + 1);
    }
}

fn calls(goal: u64) -> u64 {
    let time = VirtualClock::default();
    let config = EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
    let port = Hub::direct(MemoryConfig::default()).port();
    let event_loop = Loop::over(config, port, Clock::Virtual(time.clone()));
    let event_loop = event_loop.expect("this thread has no other loop");
    event_loop.serve(GreeterServer::new(Echo)).expect("it is the only service");
    let (started, over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for _ in 0..SESSIONS {
        let client = GreeterClient::new(event_loop.channel_to_itself());
        for _ in 0..SLOTS {
            event_loop.spawn(call(client.clone(), goal, started.clone(), over.clone()));
        }
    }
    let mut turns = 0;
    while over.get() < goal {
        event_loop.run_turns(1);
        turns += 1;
        time.set(Time::from_nanos(turns * 1000));
    }
    over.get()
}

/// What a call puts before its messages.
const HEAD_BYTES: usize = 8;

fn encoded(message: Msg<Blob>) -> MsgBuf {
    let mut buf = Msg::into_native(message).expect("it is small").into_buf_with(0);
    buf.skip(ROOM_BYTES - HEAD_BYTES);
    buf
}

/// The messages of a call, handled as calls do: the request is made, encoded, and read by the
/// server as a copy; so is the response, which the client reads in the buffer that its bytes were
/// put into.
fn messages(goal: u64) -> u64 {
    for _ in 0..goal {
        let sent = encoded(request());
        let read: Msg<Blob> = Msg::copy_native(&sent[HEAD_BYTES..]).expect("it was just made");
        let mut response = Blob::new();
        response.edit().set_bytes(read.bytes());
        drop(read);
        let answer = encoded(response);
        recycle(sent);
        let mut arrived = buffer(answer.len());
        arrived.copy_from(&answer);
        recycle(answer);
        let at = HEAD_BYTES..arrived.len();
        let read: Msg<Blob> = Msg::from_native(arrived, at).expect("it was just made");
        assert_eq!(read.bytes(), BYTES);
    }
    goal
}

fn main() {
    let goal: u64 = std::env::args().nth(1).map_or(100_000, |n| n.parse().expect("a number"));
    let only_messages = std::env::args().nth(2).as_deref() == Some("messages");
    let rpcs = if only_messages { messages(goal) } else { calls(goal) };
    println!("{{\"rpcs\": {rpcs}, \"packets\": {}, \"syscalls\": 0}}", 2 * rpcs);
}
