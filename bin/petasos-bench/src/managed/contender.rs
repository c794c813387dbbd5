//! What a contender is, and how those are started that there are with several settings.

use std::net::SocketAddr;

use petasos_report::Tone;

use super::part_args::PartName;
use super::service::{Service, Setup, Transport};
use super::shape::Shape;
use super::sidecars::Sidecar;
use super::team::{CLIENT_CORE, SERVER_CORE, Team, part, part_behind};
use crate::error::BenchError;

/// A contender.
#[derive(Clone, Copy)]
pub struct Contender {
    /// The name on the command line and in the JSON.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    pub role: Role,
    /// The contender that has everything but its policy.
    pub without: Option<&'static str>,
    /// Whether a policy of it refuses what is forbidden.
    pub refuses: bool,
    /// Its colour in pictures.
    pub tone: Tone,
    /// Starts its processes for these calls.
    pub start: fn(Shape) -> Result<Team, BenchError>,
    /// Its configuration as text, if there is one.
    pub configuration: Option<fn() -> String>,
}

/// What others are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The least that is possible: one contender.
    Floor,
    /// A system that needs proxies for what a service does. The best of them is a reference.
    Proxied,
    /// Any other.
    Other,
}

impl Contender {
    /// Whether calls go through the managed service.
    pub fn is_managed(&self) -> bool {
        self.name.starts_with("managed")
    }

    /// Starts its processes.
    ///
    /// # Errors
    /// If it cannot be had here, or does not come up.
    pub fn start(&self, shape: Shape) -> Result<Team, BenchError> {
        (self.start)(shape)
    }
}

/// The entry of a contender without proxies of others.
pub const fn other(
    name: &'static str,
    about: &'static str,
    tone: Tone,
    start: fn(Shape) -> Result<Team, BenchError>,
) -> Contender {
    let (role, without, refuses) = (Role::Other, None, false);
    Contender { name, about, role, without, refuses, tone, start, configuration: None }
}

/// Applications behind a service on each host: the client's, and the server's.
pub fn managed(near: Setup, far: Setup, shape: Shape) -> Result<Team, BenchError> {
    let client = match far.transport {
        Transport::Datagrams | Transport::Tcp | Transport::Fabric => PartName::ManagedClient,
        Transport::Grpc => PartName::ManagedGrpcClient,
    };
    let far = Service::start(SERVER_CORE, far)?;
    let near = Service::start(CLIENT_CORE, near)?;
    let (name, path) = (PartName::ManagedServer, far.path());
    let (server, _) = part_behind(name, SERVER_CORE, shape, &[], Some(&path))?;
    let path = near.path();
    let (client, _) = part_behind(client, CLIENT_CORE, shape, &[far.address()], Some(&path))?;
    Ok(Team::with_sidecars(client, server, [near.running, far.running]))
}

/// Calls of tonic through this proxy on each host. The client's has a filter, if it is not empty.
pub fn behind_sidecars(sidecar: Sidecar, filter: &str, shape: Shape) -> Result<Team, BenchError> {
    // What is missing shows before anything is started.
    sidecar.program()?;
    let (server, addresses) = part(PartName::TonicServer, SERVER_CORE, shape, &[])?;
    let far = sidecar.start(SERVER_CORE, &addresses, "")?;
    let near = sidecar.start(CLIENT_CORE, &[far.address], filter)?;
    let servers: [SocketAddr; 1] = [near.address];
    let (client, _) = part(PartName::TonicClient, CLIENT_CORE, shape, &servers)?;
    Ok(Team::with_sidecars(client, server, [near, far]))
}
