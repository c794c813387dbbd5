//! What a handler is told of who calls and of the trace that the call belongs to, over datagrams
//! and gRPC, plain and with certificates.
#![cfg(all(feature = "grpc", feature = "tls"))]

use crate::flow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::certificates::Authority;
use crate::flow::chunk;
use crate::flow::generated::{Chunk, Flow, FlowClient, FlowServer, Plan, Sum};
use petasos::grpc::{ClientConfig, ClientTls, GrpcConfig, ServerTls};
use petasos::{
    Channel, Credentials, PeerTransport, Pem, Request, Response, Security, Sender, Server, Status,
    Streaming, TlsConfig, TraceContext,
};

const TRACE: TraceContext = TraceContext { trace_id: [7; 16], span_id: [8; 8], flags: 1 };

/// Who called, and as part of which trace.
type Told = (Option<petasos::Peer>, Option<TraceContext>);

/// Keeps what each handler was told.
#[derive(Clone, Default)]
struct Nosy(Arc<Mutex<Vec<Told>>>);

impl Nosy {
    fn note(&self, told: Told) {
        self.0.lock().expect("no test panics under the lock").push(told);
    }

    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.lock().expect("no test panics under the lock"))
    }
}

impl Flow for Nosy {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        self.note((request.peer(), request.trace().copied()));
        Ok(Response::new(request.into_message()))
    }

    async fn produce(&self, request: Request<Plan>, _: Sender<Chunk>) -> Result<(), Status> {
        self.note((request.peer(), request.trace().copied()));
        Ok(())
    }

    async fn collect(&self, mut chunks: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        self.note((chunks.peer(), chunks.trace().copied()));
        while chunks.message().await?.is_some() {}
        Ok(Response::new(Sum::new()))
    }

    async fn chat(&self, chunks: Streaming<Chunk>, _: Sender<Chunk>) -> Result<(), Status> {
        self.note((chunks.peer(), chunks.trace().copied()));
        Ok(())
    }
}

/// Calls each kind of method once.
async fn call_all(channel: Channel) -> Result<(), Status> {
    let client = FlowClient::new(channel);
    client.echo(Request::new(chunk(1, 1)).with_trace(TRACE)).await?;
    let plan = Request::new(flow::plan("", 0, 0)).with_trace(TRACE);
    assert!(client.produce(plan).await?.message().await?.is_none());
    client.collect().with_trace(TRACE).finish().await?;
    let (_, mut chunks) = client.chat().with_trace(TRACE).await?;
    assert!(chunks.message().await?.is_none());
    client.echo(Request::new(chunk(1, 1))).await.map(drop)
}

/// Runs a test, which fails rather than hangs.
fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime starts");
    let patience = Duration::from_secs(100);
    runtime.block_on(async { tokio::time::timeout(patience, test).await.expect("it hangs") });
}

fn check(told: &[Told], transports: &[PeerTransport], names: &[&str]) {
    let traces: Vec<_> = told.iter().map(|(_, trace)| *trace).collect();
    assert_eq!(traces, [Some(TRACE), Some(TRACE), Some(TRACE), Some(TRACE), None]);
    for (peer, _) in told {
        let peer = peer.as_ref().expect("its session is there");
        assert!(transports.contains(&peer.transport()), "{peer:?}");
        assert!(peer.address().ip().is_loopback(), "{peer:?}");
        assert_eq!(
            (peer.names(), peer.certificate().is_some()),
            (&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()[..], !names.is_empty(),)
        );
    }
}

const ON_ONE_HOST: [PeerTransport; 2] = [PeerTransport::Datagrams, PeerTransport::SharedMemory];

#[test]
fn handlers_know_who_calls_and_in_which_trace() {
    run(async {
        let nosy = Nosy::default();
        let server = Server::builder().add(FlowServer::new(nosy.clone())).listen("127.0.0.1:0");
        let server = server.grpc("127.0.0.1:0", GrpcConfig::default()).start().expect("it starts");
        let address = server.local_address().expect("it listens");
        let channel = Channel::connect(&format!("petasos://{address}")).await.expect("it is up");
        call_all(channel).await.expect("the handlers answer");
        check(&nosy.take(), &ON_ONE_HOST, &[]);
        let address = server.grpc_address().expect("it has a port");
        let channel = Channel::connect(&format!("grpc://{address}")).await.expect("it is up");
        call_all(channel).await.expect("the handlers answer");
        check(&nosy.take(), &[PeerTransport::Grpc], &[]);
    });
}

fn tls(pem: Pem) -> Security {
    Security::Tls(TlsConfig { credentials: Credentials::Pem(pem), allow: None })
}

#[test]
fn certificates_name_the_peer_on_both_transports() {
    run(async {
        let (nosy, authority) = (Nosy::default(), Authority::new("ours"));
        let server = Server::builder().add(FlowServer::new(nosy.clone())).listen("127.0.0.1:0");
        let port = ServerTls::from_pem(&authority.pem("localhost")).expect("a fine certificate");
        let mut config = GrpcConfig::default();
        config.tls = Some(port);
        let server = server.security(tls(authority.pem("server"))).grpc("127.0.0.1:0", config);
        let server = server.start().expect("it starts");
        let address = server.local_address().expect("it listens");
        let channel = Channel::builder(&format!("petasos://{address}"));
        let channel = channel.security(tls(authority.pem("client"))).connect().await;
        call_all(channel.expect("it is let in")).await.expect("the handlers answer");
        check(&nosy.take(), &ON_ONE_HOST, &["client"]);
        let port = server.grpc_address().expect("it has a port").port();
        let ours = ClientTls::from_pem(&authority.pem("client")).expect("a fine certificate");
        let mut config = ClientConfig::default();
        config.tls = Some(ours);
        let channel = Channel::builder(&format!("grpcs://localhost:{port}")).grpc(config);
        let channel = channel.connect().await.expect("it is let in");
        call_all(channel).await.expect("the handlers answer");
        check(&nosy.take(), &[PeerTransport::Grpc], &["client"]);
    });
}
