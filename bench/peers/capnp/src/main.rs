//! The peer Cap'n Proto RPC: capnp-rpc's two-party network over one TCP connection.

use std::process::ExitCode;
use std::rc::Rc;

use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::{RpcSystem, new_client_from_rc, twoparty};
use futures::AsyncReadExt;
use petasos_peer::{Caller, Error, Options, Payloads};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio_util::compat::TokioAsyncReadCompatExt;

use bench_capnp::bench;

mod bench_capnp {
    include!(concat!(env!("OUT_DIR"), "/bench_capnp.rs"));
}

struct Answers(Payloads);

impl bench::Server for Answers {
    async fn call(
        self: Rc<Self>,
        params: bench::CallParams,
        mut results: bench::CallResults,
    ) -> Result<(), capnp::Error> {
        let request = params.get()?.get_request()?;
        let template = self.0.response_template();
        let response = results.get().init_response(template.len() as u32);
        response.copy_from_slice(template);
        let answered = self.0.write_answer(request, response);
        answered.map_err(|error| capnp::Error::failed(error.to_string()))
    }
}

fn network(stream: TcpStream, side: Side) -> std::io::Result<Box<Network>> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.compat().split();
    let mut limits = capnp::message::ReaderOptions::new();
    limits.traversal_limit_in_words(None);
    // Without buffering, every message would take several system calls.
    let reader = futures::io::BufReader::with_capacity(BUFFER_BYTES, reader);
    let writer = futures::io::BufWriter::with_capacity(BUFFER_BYTES, writer);
    Ok(Box::new(Network::new(reader, writer, side, limits)))
}

type Reader = futures::io::BufReader<futures::io::ReadHalf<tokio_util::compat::Compat<TcpStream>>>;
type Network = twoparty::VatNetwork<Reader>;

const BUFFER_BYTES: usize = 64 << 10;

async fn start(options: &Options) -> Result<String, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let answers = Rc::new(Answers(Payloads::new(options)));
    spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let client: bench::Client = new_client_from_rc(Rc::clone(&answers));
            // If a connection fails, the client reports it.
            if let Ok(network) = network(stream, Side::Server) {
                spawn_local(RpcSystem::new(network, Some(client.client)));
            }
        }
    });
    Ok(address)
}

#[derive(Clone)]
struct Client(bench::Client);

impl Caller for Client {
    type Response = Vec<u8>;

    async fn call(&self, request: Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut call = self.0.call_request();
        call.get().set_request(&request);
        let response = call.send().promise.await?;
        Ok(response.get()?.get_response()?.to_vec())
    }
}

async fn connect(options: &Options) -> Result<Client, Error> {
    let stream = TcpStream::connect(&options.server).await?;
    let mut system = RpcSystem::new(network(stream, Side::Client)?, None);
    let client = system.bootstrap(Side::Server);
    spawn_local(system);
    Ok(Client(client))
}

fn main() -> ExitCode {
    petasos_peer::run(
        |options| petasos_peer::serve(async || start(options).await),
        |options| petasos_peer::call(options, async || connect(options).await),
    )
}
