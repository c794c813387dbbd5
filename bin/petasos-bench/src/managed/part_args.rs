//! The command line of one process of a contender.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};

use super::models::Model;
use super::shape::{Shape, Work};

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartName {
    TonicClient,
    TonicServer,
    DirectClient,
    DirectServer,
    /// Client and server of two proxies, which give up the core to them.
    ProxiedClient,
    ProxiedServer,
    Proxy,
    /// Applications behind the managed service.
    ManagedClient,
    /// The same client, which calls a gRPC server.
    ManagedGrpcClient,
    ManagedServer,
    /// The same, with calls that have numbers.
    NumberedClient,
    NumberedServer,
    /// The same, which bind a service and call nothing.
    SmallBinder,
    WideBinder,
    /// The same, which push the tensors of a model.
    TensorClient,
    TensorServer,
    /// A hostile application.
    Intruder,
    RelayClient,
    RelayServer,
    RelayService,
}

impl PartName {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PartName::TonicClient => "tonic-client",
            PartName::TonicServer => "tonic-server",
            PartName::DirectClient => "direct-client",
            PartName::DirectServer => "direct-server",
            PartName::ProxiedClient => "proxied-client",
            PartName::ProxiedServer => "proxied-server",
            PartName::Proxy => "proxy",
            PartName::ManagedClient => "managed-client",
            PartName::ManagedGrpcClient => "managed-grpc-client",
            PartName::ManagedServer => "managed-server",
            PartName::NumberedClient => "numbered-client",
            PartName::NumberedServer => "numbered-server",
            PartName::SmallBinder => "small-binder",
            PartName::WideBinder => "wide-binder",
            PartName::TensorClient => "tensor-client",
            PartName::TensorServer => "tensor-server",
            PartName::Intruder => "intruder",
            PartName::RelayClient => "relay-client",
            PartName::RelayServer => "relay-server",
            PartName::RelayService => "relay-service",
        }
    }
}

/// Run as one process of a contender (internal)
#[derive(Args, Clone, Debug)]
pub struct PartArgs {
    /// What the process is
    pub name: PartName,
    /// The core to run on
    #[arg(long)]
    pub core: usize,
    /// The process that has started this one, to tell them apart in lists of processes
    #[arg(long)]
    pub parent: u32,
    /// What is called
    #[arg(long)]
    work: Work,
    #[arg(long)]
    request_bytes: u32,
    #[arg(long)]
    response_bytes: u32,
    #[arg(long)]
    window: usize,
    #[arg(long)]
    threads: usize,
    /// The addresses of what it talks to
    #[arg(long)]
    pub server: Vec<SocketAddr>,
    /// The managed service that it talks through, as unix:PATH
    #[arg(long)]
    pub service: Option<String>,
    /// What that knows it as
    #[arg(long)]
    pub application: Option<String>,
    /// The model whose tensors it pushes
    #[arg(long)]
    pub model: Option<Model>,
    /// Be the second of two applications, whose service has another name
    #[arg(long)]
    pub second: bool,
}

impl PartArgs {
    /// The calls.
    pub fn shape(&self) -> Shape {
        Shape {
            work: self.work,
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            window: self.window.max(1),
            threads: self.threads.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for part in PartName::value_variants() {
            let value = part.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), part.name());
        }
    }
}
