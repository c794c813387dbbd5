//! A server whose methods are functions, and what calls it.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod frames;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use petasos_buf::MsgBuf;
use petasos_call::{HEAD_BYTES, Metadata, Status};
use petasos_grpc::{
    BoxFuture, ClientConfig, ClientHead, Connection, Drain, FrameReader, FrameWriter, GrpcConfig,
    GrpcStats, MethodPath, Routes, ServerCall,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

type Method = Box<dyn Fn(ServerCall) -> BoxFuture<'static, ()> + Send + Sync>;

/// Methods by path.
#[derive(Default)]
pub struct Service(HashMap<&'static str, Method>);

impl Service {
    /// With `/echo`, which sends every message back.
    pub fn new() -> Service {
        Service::default().with("/echo", |mut call| async move {
            let status = loop {
                match call.requests.next().await {
                    Ok(Some(request)) => match call.responses.send(message(&request)).await {
                        Ok(()) => {}
                        Err(status) => break status,
                    },
                    Ok(None) => break Status::ok(),
                    Err(status) => break status,
                }
            };
            call.responses.end(status, Metadata::new());
        })
    }

    pub fn with<F>(
        mut self,
        path: &'static str,
        method: impl Fn(ServerCall) -> F + Send + Sync + 'static,
    ) -> Service
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.insert(path, Box::new(move |call| Box::pin(method(call))));
        self
    }
}

impl Routes for Service {
    fn serve(&self, path: &str, call: ServerCall) -> BoxFuture<'static, ()> {
        match self.0.get(path) {
            Some(method) => method(call),
            None => {
                call.responses.end(Status::unimplemented("no such method"), Metadata::new());
                Box::pin(std::future::ready(()))
            }
        }
    }
}

pub struct Server {
    pub address: SocketAddr,
    pub drain: Drain,
    pub task: JoinHandle<()>,
    server: petasos_grpc::Server,
}

impl Server {
    pub async fn start(service: Service, config: GrpcConfig) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        Server::start_on(listener, service, config)
    }

    pub fn start_on(listener: TcpListener, service: Service, config: GrpcConfig) -> Server {
        let address = listener.local_addr().expect("it is bound");
        let drain = Drain::new();
        let server = petasos_grpc::Server::new(Arc::new(service), config, drain.clone());
        let task = tokio::spawn(server.clone().serve(listener));
        Server { address, drain, task, server }
    }

    /// The same server at another port.
    pub async fn listen_again(&self) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let task = tokio::spawn(self.server.clone().serve(listener));
        Server { address, drain: self.drain.clone(), task, server: self.server.clone() }
    }

    pub fn stats(&self) -> GrpcStats {
        self.server.refusals().stats()
    }

    pub async fn connect(&self) -> Connection {
        let target = self.address.to_string();
        Connection::connect(&target, ClientConfig::default()).await.expect("the server listens")
    }
}

/// A message behind its room.
pub fn message(bytes: &[u8]) -> MsgBuf {
    let mut buf = MsgBuf::new(HEAD_BYTES + bytes.len());
    buf.as_mut_slice()[HEAD_BYTES..].copy_from_slice(bytes);
    buf
}

pub fn head(timeout: Option<Duration>) -> ClientHead {
    ClientHead { timeout, ..ClientHead::default() }
}

/// A call with one request.
pub async fn unary(connection: &Connection, path: &str, request: &[u8]) -> Result<Bytes, Status> {
    let (mut writer, mut reader) = connection.call(&at(path), &ClientHead::default()).await?;
    // If the call is over already, the reader knows how it went.
    let _ = writer.send(message(request)).await;
    writer.close();
    reader.single().await
}

/// A call without requests, whose end the caller awaits.
pub async fn open(connection: &Connection, path: &str) -> (FrameWriter, FrameReader) {
    connection.call(&at(path), &ClientHead::default()).await.expect("the connection lives")
}

pub fn at(path: &str) -> MethodPath {
    MethodPath::new(path).expect("it is a path")
}

/// Runs a test, which fails rather than hangs.
pub fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("threads can be started");
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs");
    });
}
