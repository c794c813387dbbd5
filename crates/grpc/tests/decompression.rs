//! A message that takes long to decompress delays no other call.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use common::{Server, Service, run, unary};
use h2::SendStream;
use petasos_call::Codec;
use petasos_call::compress::compress;
use petasos_grpc::{ClientConfig, Connection, GrpcConfig};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Nearly as long as a server takes by default.
const PACKED_BYTES: usize = 4_000_000;
/// Calls that have to be answered meanwhile: many more than slip in before.
const CALLS: usize = 100;
/// Far longer than the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A message of many members that are empty: much to do, and nothing comes out.
fn slow_message() -> Bytes {
    let member = compress(Codec::GZIP, &[], Vec::new());
    let packed = member.repeat(PACKED_BYTES / member.len());
    [&[1][..], &(packed.len() as u32).to_be_bytes(), &packed].concat().into()
}

/// Where a server listens that has one thread, and another for what blocks. The latter is occupied
/// until the first of what comes with it is dropped; the server runs until the second is.
async fn server_on_one_thread() -> (SocketAddr, mpsc::Sender<()>, oneshot::Sender<()>) {
    let (tell, told) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let (release, released) = mpsc::channel::<()>();
    std::thread::spawn(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async {
            tokio::task::spawn_blocking(move || released.recv_timeout(PATIENCE));
            let server = Server::start(Service::new(), GrpcConfig::default()).await;
            tell.send(server.address).unwrap();
            let _: Result<(), _> = ended.await;
        });
    });
    (told.await.unwrap(), release, end)
}

/// Sends all of a call's only message: when this is over, the server has the rest before it.
async fn send(stream: &mut SendStream<Bytes>, mut message: Bytes) {
    let last = message.split_off(message.len() - 1);
    stream.send_data(message, false).unwrap();
    stream.reserve_capacity(1);
    poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
    stream.send_data(last, true).unwrap();
}

#[test]
fn issue_10_a_slow_decompression_delays_no_other_call() {
    run(async {
        let (address, held, _end) = server_on_one_thread().await;
        let socket = TcpStream::connect(address).await.unwrap();
        let (mut requests, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post("http://localhost/echo")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-encoding", "gzip");
        let request = request.body(()).unwrap();
        let (response, mut stream) = requests.send_request(request, false).unwrap();
        let slow = tokio::spawn(response);
        let target = address.to_string();
        let other = Connection::connect(&target, ClientConfig::default()).await.unwrap();
        assert_eq!(unary(&other, "/echo", b"first").await.unwrap(), "first");
        send(&mut stream, slow_message()).await;
        for _ in 0..CALLS {
            assert_eq!(unary(&other, "/echo", b"other").await.unwrap(), "other");
            assert!(!slow.is_finished(), "it was decompressed by the calls' thread");
        }
        drop(held);
        let mut body = slow.await.unwrap().unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), [0; 5][..], "the echo is empty");
    });
}
