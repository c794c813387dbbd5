//! The peer tarpc: bincode over one TCP connection, with one task for each request at the server.

use std::process::ExitCode;

use futures::prelude::*;
use petasos_peer::{Caller, Error, Options, Payloads};
use serde_bytes::ByteBuf;
use tarpc::context::Context;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::tokio_util::codec::{Framed, LengthDelimitedCodec};
use tarpc::{client, context, serde_transport, server};
use tokio::net::{TcpListener, TcpStream};

#[tarpc::service]
trait Bench {
    async fn call(request: ByteBuf) -> Option<ByteBuf>;
}

/// tarpc's default is 8 MiB.
const FRAME_BYTES_MAX: usize = 1 << 30;

fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(FRAME_BYTES_MAX).new_codec()
}

#[derive(Clone)]
struct Answers(Payloads);

impl Bench for Answers {
    async fn call(self, _: Context, request: ByteBuf) -> Option<ByteBuf> {
        self.0.answer(&request).ok().map(ByteBuf::from)
    }
}

async fn start(options: &Options) -> Result<String, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let (answers, window) = (Answers(Payloads::new(options)), options.window);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // If a connection fails, the client reports it.
            let _ = stream.set_nodelay(true);
            let transport = serde_transport::new(Framed::new(stream, codec()), Bincode::default());
            let config = server::Config { pending_response_buffer: window.max(100) };
            let requests = BaseChannel::new(config, transport).execute(answers.clone().serve());
            tokio::spawn(requests.for_each(|request| async move {
                tokio::spawn(request);
            }));
        }
    });
    Ok(address)
}

#[derive(Clone)]
struct Client(BenchClient);

impl Caller for Client {
    type Response = ByteBuf;

    async fn call(&self, request: Vec<u8>) -> Result<ByteBuf, Error> {
        let response = self.0.call(context::current(), ByteBuf::from(request)).await?;
        response.ok_or_else(|| "the server refused the request".into())
    }
}

async fn connect(options: &Options) -> Result<Client, Error> {
    let stream = TcpStream::connect(&options.server).await?;
    stream.set_nodelay(true)?;
    let transport = serde_transport::new(Framed::new(stream, codec()), Bincode::default());
    let mut config = client::Config::default();
    config.max_in_flight_requests = config.max_in_flight_requests.max(options.window);
    config.pending_request_buffer = config.pending_request_buffer.max(options.window);
    Ok(Client(BenchClient::new(config, transport).spawn()))
}

fn main() -> ExitCode {
    petasos_peer::run(
        |options| petasos_peer::serve(async || start(options).await),
        |options| petasos_peer::call(options, async || connect(options).await),
    )
}
