//! etcd's services for a group of replicas: what etcd's clients call (ADR 55).
//!
//! A gateway stands beside a member of a group that keeps a store with etcd's model, and is a
//! client of that group: it asks the leader, whoever that is, and the own member for what may be
//! older: serializable reads, and changes. Its port speaks gRPC.
//!
//! Boundary rule: asks the group as any client does; it decides nothing about the store, and keeps
//! nothing that is lost with it but watches.

pub mod api;
mod cluster;
mod convert;
mod failure;
mod group;
mod kv;
mod lease;
mod maintenance;
mod sorting;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use petasos::grpc::GrpcConfig;
use petasos::{Server, StartError};
use petasos_quorum::client::{ClientError, Pipeline};
use tokio::sync::watch as latest;
use tokio::task::JoinHandle;

use crate::api::{ClusterServer, KVServer, LeaseServer, MaintenanceServer, WatchServer};
use crate::cluster::Members;
use crate::group::{Group, status_of};
use crate::kv::Store;
use crate::lease::Leases;
use crate::maintenance::Operators;
use crate::watch::{Feed, Watches};

/// How often the own member is asked how it is.
const LOOK: Duration = Duration::from_secs(1);
/// The pause before it is asked again if it has not answered.
const PAUSE: Duration = Duration::from_millis(100);

/// What a gateway needs.
pub struct GatewayConfig {
    /// The own member's address.
    pub own: SocketAddr,
    /// Where clients connect to.
    pub listen: SocketAddr,
    /// The limits and the TLS of that port. Without TLS, only clients on loopback are served.
    pub grpc: GrpcConfig,
    /// What clients call the port, as `https://HOST:PORT`.
    pub client_url: String,
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The own member does not answer.
    #[error("the member does not say how it is: {0}")]
    Member(#[from] ClientError),
    /// Clients cannot be served.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// etcd's services, until it is dropped.
pub struct Gateway {
    server: Server,
    tasks: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Serves, on the Tokio runtime in which this is called. The pipeline's loop has to run.
    ///
    /// # Errors
    /// See [`GatewayError`].
    pub async fn start(pipeline: Pipeline, config: GatewayConfig) -> Result<Gateway, GatewayError> {
        let own = config.own;
        let first = status_of(&pipeline, own).await?;
        let (tell, status) = latest::channel(Arc::new(first));
        let group = Group::new(pipeline.clone(), own, status);
        let look = async move {
            loop {
                let status = status_of(&pipeline, own).await;
                let wait = if status.is_ok() { LOOK } else { PAUSE };
                if let Ok(status) = status {
                    tell.send_replace(Arc::new(status));
                }
                tokio::time::sleep(wait).await;
            }
        };
        let feed = Arc::new(Feed::new());
        let (following, followed) = (feed.clone(), group.clone());
        let follow = async move { following.follow(&followed).await };
        let tasks = vec![tokio::spawn(look), tokio::spawn(follow)];
        let server = serve(group, feed, config)?;
        Ok(Gateway { server, tasks })
    }

    /// Where clients connect to.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.grpc_address()
    }
}

fn serve(group: Group, feed: Arc<Feed>, config: GatewayConfig) -> Result<Server, StartError> {
    let GatewayConfig { listen, grpc, client_url, .. } = config;
    let watches = Watches { group: group.clone(), feed };
    let members = Members { group: group.clone(), client_url };
    Server::builder()
        .add(KVServer::new(Store(group.clone())))
        .add(WatchServer::new(watches))
        .add(LeaseServer::new(Leases(group.clone())))
        .add(ClusterServer::new(members))
        .add(MaintenanceServer::new(Operators(group)))
        .grpc(listen, grpc)
        .start()
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
