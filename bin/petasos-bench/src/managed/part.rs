//! One process of a contender.
//!
//! Clients and servers follow the lines of [`rpc::child`](crate::rpc). What stands between them
//! prints `ready ADDRESS…`, works all the time, and ends with its standard input.

use std::net::SocketAddr;

use petasos_endpoint::EndpointConfig;

use super::hotel::{self, GrpcHotelClient, HotelClient};
use super::live::{Binder, NumberedClient, NumberedServer, TensorClient, intrude, tensor_server};
use super::part_args::{PartArgs, PartName};
use super::proxy;
use super::relay;
use super::shape::{Shape, Work};
use super::threads::{ClientThreads, ServerThreads};
use super::waiting::{YIELD, sharing};
use crate::error::BenchError;
use crate::rpc::args::RpcArgs;
use crate::rpc::child::{be_client, be_server};
use crate::rpc::direct::{DirectClient, DirectServer};
use crate::rpc::ends::{Client, Server};
use crate::rpc::tonic::{TonicClient, TonicServer};
use crate::rpc::typed::{TypedClient, managed_server};
use crate::turns::pin;

/// Runs as a process of a contender until its standard input ends.
///
/// # Errors
/// What the process could not do.
pub fn be_part(args: &PartArgs) -> Result<(), BenchError> {
    // Threads that are started later run there as well.
    pin(args.core);
    match args.name {
        PartName::Proxy => proxy::run(args),
        PartName::RelayService => relay::serve(args),
        PartName::Intruder => intrude(args),
        PartName::NumberedClient => be_client(&mut NumberedClient::start(args)?),
        PartName::NumberedServer => be_server(&mut NumberedServer::start(args)?),
        PartName::TensorClient => be_client(&mut TensorClient::start(args)?),
        PartName::TensorServer => be_server(&mut tensor_server(args)?),
        PartName::SmallBinder | PartName::WideBinder => be_client(&mut Binder::new(args)?),
        PartName::TonicClient
        | PartName::DirectClient
        | PartName::ProxiedClient
        | PartName::ManagedClient
        | PartName::ManagedGrpcClient
        | PartName::RelayClient => be_client(&mut clients(args)?),
        PartName::TonicServer
        | PartName::DirectServer
        | PartName::ProxiedServer
        | PartName::ManagedServer
        | PartName::RelayServer => be_server(&mut servers(args)?),
    }
}

fn clients(args: &PartArgs) -> Result<ClientThreads, BenchError> {
    let (name, shape) = (args.name, args.shape());
    if args.server.is_empty() {
        return Err("--server names no server".into());
    }
    let (servers, service) = (args.server.clone(), args.service.clone());
    ClientThreads::start(shape.threads, move |thread| {
        client(name, shape, servers[thread % servers.len()], service.as_deref())
    })
}

fn client(
    name: PartName,
    shape: Shape,
    server: SocketAddr,
    service: Option<&str>,
) -> Result<Box<dyn Client>, BenchError> {
    let calls = calls(shape, vec![server]);
    Ok(match name {
        PartName::TonicClient if shape.work == Work::Reservations => {
            Box::new(GrpcHotelClient::new(&calls, shape.window)?)
        }
        PartName::ManagedClient if shape.work == Work::Reservations => {
            Box::new(HotelClient::managed(server, shape.window, service)?)
        }
        PartName::TonicClient => Box::new(TonicClient::new(&calls)?),
        PartName::ManagedClient => Box::new(TypedClient::managed(&calls, service)?),
        PartName::ManagedGrpcClient => Box::new(TypedClient::managed_grpc(&calls, service)?),
        PartName::RelayClient => Box::new(relay::RelayClient::connect(shape, server)?),
        _ => Box::new(DirectClient::configured(&calls, config(name, shape))?),
    })
}

fn servers(args: &PartArgs) -> Result<ServerThreads, BenchError> {
    let (name, shape, servers) = (args.name, args.shape(), args.server.clone());
    let service = args.service.clone();
    ServerThreads::start(shape.threads, move |_| server(name, shape, &servers, service.as_deref()))
}

fn server(
    name: PartName,
    shape: Shape,
    servers: &[SocketAddr],
    service: Option<&str>,
) -> Result<Box<dyn Server>, BenchError> {
    let calls = calls(shape, Vec::new());
    Ok(match name {
        PartName::TonicServer if shape.work == Work::Reservations => {
            Box::new(hotel::grpc_server(&calls)?)
        }
        PartName::ManagedServer if shape.work == Work::Reservations => {
            Box::new(hotel::server(service)?)
        }
        PartName::TonicServer => Box::new(TonicServer::new(&calls)?),
        PartName::ManagedServer => Box::new(managed_server(&calls, service)?),
        PartName::RelayServer => {
            let service = servers.first().ok_or("--server names no service")?;
            Box::new(relay::RelayServer::connect(shape, *service)?)
        }
        _ => Box::new(DirectServer::configured(&calls, config(name, shape))?),
    })
}

/// The arguments of the ends that `petasos bench rpc` has, too.
fn calls(shape: Shape, server: Vec<SocketAddr>) -> RpcArgs {
    RpcArgs::of_calls(shape.request_bytes, shape.response_bytes, shape.window, server)
}

/// How an end without a service works: as by default, or as befits a core that it shares.
fn config(name: PartName, shape: Shape) -> EndpointConfig {
    let is_alone = matches!(name, PartName::DirectClient | PartName::DirectServer);
    match (is_alone, shape.threads) {
        (true, 1) => EndpointConfig::default(),
        (true, _) => EndpointConfig { polling: YIELD, ..EndpointConfig::default() },
        (false, _) => sharing(),
    }
}
