//! A message that takes long to decompress delays nobody else in its loop.

mod flow;
mod unpackers;

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use flow::generated::{Chunk, Flow, FlowServer, Plan, Sum};
use flow::{World, asking, check, chunk};
use petasos::{Code, Codec, Request, Response, Sender, Status, Streaming};
use unpackers::Unpackers;

/// Nearly as long as the loop takes. Compressed, it is some packets.
const LONG_BYTES: usize = 15 << 20;
/// Calls that have to be answered meanwhile: many more than while such a message is on its way.
const CALLS: u32 = 300;

/// Answers with a message as long as the number says, and counts the bytes of streams.
struct Service;

impl Flow for Service {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        let response = Response::new(chunk(0, request.number() as usize));
        // Only what is asked for is long.
        Ok(if request.number() == 0 { response.compressed(false) } else { response })
    }

    async fn produce(&self, _: Request<Plan>, _: Sender<Chunk>) -> Result<(), Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn collect(&self, mut chunks: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        let mut bytes = 0;
        while let Some(chunk) = chunks.message().await? {
            bytes += chunk.bytes().len() as u64;
        }
        let mut sum = Sum::new();
        sum.edit().set_bytes(bytes);
        Ok(Response::new(sum))
    }

    async fn chat(&self, _: Streaming<Chunk>, _: Sender<Chunk>) -> Result<(), Status> {
        Err(Status::unimplemented("not here"))
    }
}

fn world() -> World {
    let world = World::bare();
    world.event_loop.serve(FlowServer::new(Service)).expect("it is the only service");
    world
}

async fn ask_other(world: &World) {
    let echoed = world.client.echo(asking(0, "other")).await;
    check(&echoed.expect("the handler answers"), 0, 0);
}

/// Other calls are answered while `slow` is under way, whose message no thread is free to
/// decompress.
fn check_others_are_answered<T>(slow: impl AsyncFnOnce(&World) -> T) -> T {
    let world = world();
    let held = Unpackers::hold();
    world.run(async {
        let mut slow = pin!(slow(&world));
        let mut others = pin!(async {
            for _ in 0..CALLS {
                ask_other(&world).await;
            }
        });
        std::future::poll_fn(|cx| {
            assert!(slow.as_mut().poll(cx).is_pending(), "it was decompressed in the loop");
            others.as_mut().poll(cx)
        })
        .await;
        drop(held);
        slow.await
    })
}

/// A deadline that passes meanwhile ends the call, and its place is free for another.
#[test]
fn a_call_ends_in_time_while_its_request_is_decompressed() {
    let world = world();
    let held = Unpackers::hold();
    let in_ms = Duration::from_millis(10);
    let late = world.run(async {
        let mut slow = pin!(world.client.echo(long_chunk().with_timeout(in_ms)));
        let mut others = pin!(async {
            for _ in 0..CALLS {
                ask_other(&world).await;
            }
            world.time.set(world.time.now() + 2 * in_ms);
            std::future::pending::<()>().await;
        });
        std::future::poll_fn(|cx| {
            let _: Poll<()> = others.as_mut().poll(cx);
            slow.as_mut().poll(cx)
        })
        .await
    });
    assert_eq!(late.map(|_| ()).map_err(|late| late.code()), Err(Code::DeadlineExceeded));
    drop(held);
    for _ in 0..3 {
        let response = world.run(async { world.client.echo(long_chunk()).await });
        check(&response.expect("the handler answers"), 0, 0);
    }
}

fn long_chunk() -> Request<Chunk> {
    Request::new(chunk(0, LONG_BYTES)).with_codec(Codec::GZIP)
}

#[test]
fn issue_10_a_long_request_is_decompressed_beside_the_loop() {
    let response = check_others_are_answered(async |world| world.client.echo(long_chunk()).await);
    check(&response.expect("the handler answers"), 0, 0);
}

#[test]
fn issue_10_a_long_response_is_decompressed_beside_the_loop() {
    let response = check_others_are_answered(async |world| {
        let request = Request::new(chunk(LONG_BYTES as u32, 0)).with_codec(Codec::GZIP);
        world.client.echo(request).await
    });
    check(&response.expect("the handler answers"), 0, LONG_BYTES);
}

#[test]
fn issue_10_a_long_message_of_a_stream_is_decompressed_beside_the_loop() {
    let sum = check_others_are_answered(async |world| {
        let mut upload = world.client.collect().with_codec(Codec::GZIP);
        upload.send(chunk(0, LONG_BYTES)).await?;
        upload.finish().await
    });
    assert_eq!(sum.expect("the handler answers").bytes(), LONG_BYTES as u64);
}
