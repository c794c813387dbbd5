//! A peer that has as much decompressed as it can delays and refuses nobody else. One test, as the
//! threads are the process's.

mod greeter;
mod unpackers;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use greeter::blob;
use greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use petasos::{Channel, Codec, Loop, LoopConfig, Request, Response, Server, Status};
use petasos_base::Clock;
use unpackers::{PLACES, Unpackers};

const PATIENCE: Duration = Duration::from_secs(60);
/// So long that requests and responses are decompressed beside their loops.
const LONG_BYTES: usize = 1 << 20;

struct Echo;

impl Greeter for Echo {
    async fn greet(&self, _: Request<Name>) -> Result<Response<Greeting>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }
}

#[test]
fn issue_10_one_peers_messages_leave_decompression_to_others() {
    let server = Server::builder().add(GreeterServer::new(Echo)).listen("127.0.0.1:0").start();
    let server = server.expect("loopback has ports");
    let event_loop = Loop::new(LoopConfig::default()).expect("a loop starts");
    let hostile = Unpackers::hold();
    let clock = Clock::system();
    event_loop.block_on(async {
        let target = format!("petasos://{}", server.local_address().expect("it listens"));
        let channel = Channel::builder(&target).connect().await.expect("the server is up");
        let client = GreeterClient::new(channel);
        let long = Request::new(blob(&vec![7; LONG_BYTES])).with_codec(Codec::GZIP);
        let mut call = pin!(client.echo(long.with_timeout(PATIENCE)));
        // The request and the response each wait for a thread, and so for one or two of the
        // hostile peer's messages.
        let (mut released, mut next_at) = (0, clock.now());
        let response = std::future::poll_fn(|cx| {
            let polled = call.as_mut().poll(cx);
            if polled.is_pending() {
                cx.waker().wake_by_ref();
                if released < PLACES / 4 && next_at <= clock.now() {
                    hostile.release_one();
                    (released, next_at) = (released + 1, next_at + Duration::from_millis(20));
                }
            }
            polled
        });
        let response = response.await.expect("it has its share");
        assert_eq!(response.bytes().len(), LONG_BYTES);
    });
    assert_eq!(hostile.taken(), PLACES / 2);
}
