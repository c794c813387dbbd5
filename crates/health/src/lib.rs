//! Health checks by gRPC's protocol (`grpc.health.v1`): a service like others.
//!
//! ```
//! use petasos_health::ServingStatus;
//!
//! let (reporter, service) = petasos_health::service();
//! reporter.set("store.Store", ServingStatus::SERVING);
//! # let _ = service;
//! // Serve `service` beside the others; on the way down:
//! reporter.shut_down();
//! ```
//!
//! Invariant: whoever watches is woken after each change, and compares with what it last said.

mod board;
#[rustfmt::skip]
pub(crate) mod generated;

use std::sync::Arc;

use petasos::Msg;

use board::Board;
pub use generated::health_check_response::ServingStatus;
pub use generated::{
    Health, HealthCheckRequest, HealthCheckResponse, HealthClient, HealthListRequest,
    HealthListResponse, HealthServer,
};
use petasos::Sender;
use petasos::Status;
use petasos::{Request, Response};

/// The most services that `List` tells of; more are refused, as the protocol says.
const LIST_MAX: usize = 100;

/// The service, and what sets the state of services in it. The server as a whole, whose name is
/// empty, is serving; of all others nothing is known.
pub fn service() -> (HealthReporter, HealthServer<HealthService>) {
    let board = Arc::new(Board::new());
    let service = HealthService { board: board.clone() };
    (HealthReporter { board }, HealthServer::new(service))
}

/// Sets how services are. Clones set the same.
#[derive(Clone, Debug)]
pub struct HealthReporter {
    board: Arc<Board>,
}

impl HealthReporter {
    /// From now on a service is so. The empty name is the server as a whole.
    pub fn set(&self, service: &str, status: ServingStatus) {
        self.board.set(service, Some(status));
    }

    /// From now on nothing is known of a service.
    pub fn clear(&self, service: &str) {
        self.board.set(service, None);
    }

    /// How a service is, if anything is known of it.
    pub fn status(&self, service: &str) -> Option<ServingStatus> {
        self.board.status(service)
    }

    /// From now on no known service is serving, and nothing changes this any more: clients that
    /// watch go elsewhere before the server leaves.
    pub fn shut_down(&self) {
        self.board.shut_down();
    }
}

/// Answers health checks; see [`service`].
#[derive(Debug)]
pub struct HealthService {
    board: Arc<Board>,
}

impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let unknown = || Status::not_found(format!("no service `{}` is known", request.service()));
        let status = self.board.status(request.service()).ok_or_else(unknown)?;
        Ok(Response::new(answer(status)))
    }

    async fn list(
        &self,
        _: Request<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        let statuses = self.board.all();
        if statuses.len() > LIST_MAX {
            let what = format!("{} services are known, and {LIST_MAX} can be told", statuses.len());
            return Err(Status::resource_exhausted(what));
        }
        let mut response = HealthListResponse::new();
        for (name, status) in &statuses {
            response.edit().statuses_mut().at(name).set_status(*status);
        }
        Ok(Response::new(response))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
        mut responses: Sender<HealthCheckResponse>,
    ) -> Result<(), Status> {
        let mut watch = self.board.watch(request.service());
        loop {
            let status = watch.changed().await.unwrap_or(ServingStatus::SERVICE_UNKNOWN);
            responses.send(answer(status)).await?;
        }
    }
}

fn answer(status: ServingStatus) -> Msg<HealthCheckResponse> {
    let mut response = HealthCheckResponse::new();
    response.edit().set_status(status);
    response
}
