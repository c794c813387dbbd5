//! Petasos's gRPC port, called by tonic's client: the same service. The port runs on a
//! current-thread Tokio runtime, as tonic's server does.

use std::net::SocketAddr;

use petasos::Server as Services;
use petasos::grpc::GrpcConfig;
use tokio::runtime::Runtime;

use super::args::RpcArgs;
use super::ends::Server;
use super::phase::{Phase, Turn};
use super::stop::Stop;
use super::tonic::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, run, runtime};
use super::tonic_answers::MESSAGE_BYTES_MAX;
use super::typed::service;
use crate::error::BenchError;

/// The server's side.
pub struct GrpcServer {
    runtime: Runtime,
    server: Services,
    awake: bool,
}

impl GrpcServer {
    pub fn new(args: &RpcArgs) -> Result<GrpcServer, BenchError> {
        let runtime = runtime(args)?;
        let mut config = GrpcConfig::default();
        config.receive_bytes_max = MESSAGE_BYTES_MAX;
        config.stream_window_bytes = STREAM_WINDOW_BYTES;
        config.connection_window_bytes = CONNECTION_WINDOW_BYTES;
        if let Some(certificates) = args.certificates()? {
            config.tls = Some(certificates.grpc_server()?);
        }
        let entered = runtime.enter();
        let server = Services::builder().add(service(args)).grpc("127.0.0.1:0", config).start()?;
        drop(entered);
        Ok(GrpcServer { runtime, server, awake: args.peer_awake })
    }
}

impl Server for GrpcServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.server.grpc_address().into_iter().collect()
    }

    fn serve(&mut self, phase: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        run(&self.runtime, self.awake && phase == Phase::Spinning, stop.raised());
        Ok(Turn::default())
    }
}
