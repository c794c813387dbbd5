//! What peers make a process keep stays within its account. One test, as the account is the
//! process's.

#![cfg(feature = "grpc")]

mod flow;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use flow::generated::{Chunk, FlowClient, FlowServer};
use flow::*;
use petasos::grpc::GrpcConfig;
use petasos::{Channel, Code, Codec, Msg, Sender, Server, Status, Streaming, block_on, memory};

const LIMIT_BYTES: usize = 24 << 20;
const LONG_BYTES: usize = 1 << 20;
const CALLS: usize = 60;

type Chat = (Sender<Chunk>, Streaming<Chunk>);

fn client(target: &str) -> FlowClient {
    FlowClient::new(block_on(Channel::connect(target)).expect("the server is up"))
}

/// A long message whose handler waits.
fn holding() -> Msg<Chunk> {
    let mut chunk = chunk(0, LONG_BYTES);
    chunk.edit().set_text("hold");
    chunk
}

fn used_bytes() -> usize {
    memory::usage().used_bytes
}

/// What a future has, if it has it at once.
fn now<F: Future>(future: F) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Begins a stream whose handler waits with a long message, or is refused.
async fn hold(service: &Service, client: &FlowClient) -> Result<Chat, Status> {
    let taken = service.seen().taken;
    let (mut out, mut back) = client.chat().with_timeout(PATIENCE).await?;
    out.send(holding()).await?;
    while service.seen().taken == taken {
        if let Some(Err(status)) = now(back.message()) {
            return Err(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((out, back))
}

/// More is sent than there may be: what is too much is refused, the rest waits. Gives how many of
/// each there were.
fn flood(service: &Service, client: &FlowClient) -> (usize, usize) {
    service.seen().release = false;
    let (mut kept, mut refused) = (Vec::new(), 0);
    for _ in 0..CALLS {
        match block_on(hold(service, client)) {
            Ok(stream) => kept.push(stream),
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                refused += 1;
            }
        }
    }
    let unary = block_on(client.echo(chunk(1, LONG_BYTES))).map(drop);
    assert_eq!(unary.map_err(|status| status.code()), Err(Code::ResourceExhausted));
    check(&block_on(client.echo(chunk(2, 100))).expect("short calls go on"), 2, 100);
    let waiting = kept.len();
    service.release();
    (waiting, refused)
}

/// A message that is short until it is decompressed.
fn short_messages_that_become_long_are_refused(target: &str) {
    let channel = Channel::builder(target).compress(Codec::GZIP);
    let client = FlowClient::new(block_on(channel.connect()).expect("the server is up"));
    let mut zeros = Msg::<Chunk>::new();
    zeros.edit().set_bytes(vec![0; 3 * LONG_BYTES]);
    let call = |zeros| block_on(client.echo(zeros)).map(drop).map_err(|status| status.code());
    assert_eq!(call(zeros.clone()), Ok(()));
    let before = memory::usage().refusals;
    memory::set_limit(used_bytes() + LONG_BYTES);
    assert_eq!(call(zeros), Err(Code::ResourceExhausted));
    assert!(memory::usage().refusals > before);
    memory::set_limit(LIMIT_BYTES);
}

#[test]
fn what_peers_send_stays_within_the_processs_account() {
    let service = Service::default();
    let server = Server::builder().add(FlowServer::new(service.clone()));
    let mut config = GrpcConfig::default();
    // One peer may use up the whole account here.
    config.bytes_per_peer_max = Some(usize::MAX);
    let server = server.listen("127.0.0.1:0").grpc("127.0.0.1:0", config);
    let server = server.start().expect("loopback has ports");
    let over_datagrams = format!("petasos://{}", server.local_address().expect("it listens"));
    let over_grpc = format!("grpc://{}", server.grpc_address().expect("it listens"));
    let usage = memory::usage();
    assert!(usage.limit_bytes < usize::MAX && usage.refusals == 0, "a loop has set the limit");
    memory::set_limit(LIMIT_BYTES);

    for target in [&over_datagrams, &over_grpc] {
        short_messages_that_become_long_are_refused(target);
    }
    for target in [over_datagrams, over_grpc] {
        let client = client(&target);
        let before = memory::usage();
        let (waiting, refused) = flood(&service, &client);
        println!("{target}: {waiting} wait, {refused} are refused");
        assert!(waiting > 4 && refused > 10, "{waiting} and {refused}");
        assert!(waiting * LONG_BYTES <= LIMIT_BYTES + 2 * LONG_BYTES);
        assert!(memory::usage().refusals > before.refusals);
        // When handlers are done, there is room again.
        let is_room = || used_bytes() <= before.used_bytes + 8 * LONG_BYTES;
        for _ in 0..4000 {
            if is_room() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_room(), "{:?}", memory::usage());
        check(&block_on(client.echo(chunk(3, LONG_BYTES))).expect("there is room"), 3, LONG_BYTES);
    }
}
