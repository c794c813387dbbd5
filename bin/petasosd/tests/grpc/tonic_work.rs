//! `managed.proto` for tonic: its messages, and a server.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use tonic::codec::CompressionEncoding;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::{self, StreamExt as _};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use generated::work_server::{Work, WorkServer};

/// The code that tonic's generator makes.
pub mod generated {
    tonic::include_proto!("managed.Work");
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Item {
    #[prost(string, tag = "1")]
    pub text: String,
    #[prost(int64, tag = "2")]
    pub number: i64,
    #[prost(bytes = "vec", tag = "3")]
    pub blob: Vec<u8>,
}

pub fn item(text: &str, number: i64) -> Item {
    Item { text: text.to_owned(), number, blob: Vec::new() }
}

/// What happens at the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Echoed(String),
    /// A call is being held, with its `grpc-timeout`.
    Holds(bool),
    /// A call that was held, or a stream, is not waited for any more.
    Left,
}

/// Says that a call's future is gone.
pub struct Leaves(pub Sender<Told>);

impl Drop for Leaves {
    fn drop(&mut self) {
        let _ = self.0.send(Told::Left);
    }
}

struct Worker(Sender<Told>);

#[tonic::async_trait]
impl Work for Worker {
    async fn echo(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let seen = request.metadata().get("asked").cloned();
        let raw = request.metadata().get_bin("raw-bin").cloned();
        let item = request.into_inner();
        let _ = self.0.send(Told::Echoed(item.text.clone()));
        let mut response = Response::new(item);
        if let Some(seen) = seen {
            response.metadata_mut().insert("seen", seen);
        }
        if let Some(raw) = raw {
            response.metadata_mut().insert_bin("seen-bin", raw);
        }
        Ok(response)
    }

    async fn fail(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let item = request.into_inner();
        let mut status = Status::new(tonic::Code::from(item.number as i32), item.text);
        status.metadata_mut().insert("why", "asked".parse().unwrap());
        Err(status)
    }

    async fn hold(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let has_timeout = request.metadata().contains_key("grpc-timeout");
        let _leaves = Leaves(self.0.clone());
        let _ = self.0.send(Told::Holds(has_timeout));
        core::future::pending().await
    }

    type CountStream = BoxStream<Item>;

    async fn count(&self, upto: Request<Item>) -> Result<Response<BoxStream<Item>>, Status> {
        let Item { text, number, .. } = upto.into_inner();
        let items = (0..number).map(move |number| Ok(item(&text, number)));
        let mut response = Response::new(Box::pin(tokio_stream::iter(items)) as BoxStream<Item>);
        response.metadata_mut().insert("counts", "on".parse().unwrap());
        Ok(response)
    }

    async fn sum(&self, items: Request<Streaming<Item>>) -> Result<Response<Item>, Status> {
        let (mut items, mut sum) = (items.into_inner(), 0);
        while let Some(item) = items.message().await? {
            sum += item.number;
        }
        Ok(Response::new(item("sum", sum)))
    }

    type ChatStream = BoxStream<Item>;

    async fn chat(
        &self,
        items: Request<Streaming<Item>>,
    ) -> Result<Response<BoxStream<Item>>, Status> {
        let leaves = Leaves(self.0.clone());
        let items = items.into_inner().map(move |item| {
            let _stays = &leaves;
            item
        });
        Ok(Response::new(Box::pin(items)))
    }
}

/// A tonic server on its own thread, which ends at once with this.
pub struct TonicServer {
    pub address: SocketAddr,
    pub told: Receiver<Told>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TonicServer {
    pub fn start(address: &str, tls: Option<ServerTlsConfig>) -> TonicServer {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (tell, told) = channel();
        let context = runtime.enter();
        let incoming = TcpIncoming::bind(address.parse().unwrap()).unwrap();
        drop(context);
        let address = incoming.local_addr().unwrap();
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let gzip = CompressionEncoding::Gzip;
        let work = WorkServer::new(Worker(tell)).send_compressed(gzip).accept_compressed(gzip);
        let (end, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.spawn(server.serve_with_incoming(work, incoming));
            // All that the runtime has open is closed with it.
            let _ = runtime.block_on(ended);
        });
        TonicServer { address, told, end: Some(end), thread: Some(thread) }
    }

    /// The next thing that has happened.
    pub fn next(&self) -> Told {
        self.told.recv_timeout(crate::support::PATIENCE).unwrap()
    }
}

impl Drop for TonicServer {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().unwrap().join();
    }
}
