//! Health checks with gRPC's protocol (`grpc.health.v1`), as an ordinary service.
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
//! Invariant: every change wakes all watchers. Each compares the status with the one that it last
//! sent.

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

/// The most services in an answer to `List`. If there are more, the call fails, as the protocol
/// requires.
const LIST_MAX: usize = 100;

/// The service, and a reporter that sets the status of services in it. At first the server as a
/// whole, whose name is empty, is serving, and no other service has a status.
pub fn service() -> (HealthReporter, HealthServer<HealthService>) {
    let board = Arc::new(Board::new());
    let service = HealthService { board: board.clone() };
    (HealthReporter { board }, HealthServer::new(service))
}

/// Sets the status of services. Clones set the same.
#[derive(Clone, Debug)]
pub struct HealthReporter {
    board: Arc<Board>,
}

impl HealthReporter {
    /// Sets the status of a service. The empty name is the server as a whole.
    pub fn set(&self, service: &str, status: ServingStatus) {
        self.board.set(service, Some(status));
    }

    /// Removes the status of a service.
    pub fn clear(&self, service: &str) {
        self.board.set(service, None);
    }

    /// The status of a service, if it has one.
    pub fn status(&self, service: &str) -> Option<ServingStatus> {
        self.board.status(service)
    }

    /// Sets all services to not serving, for good. Clients that watch use other servers before this
    /// one shuts down.
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
            let what = format!("{} services, more than the limit of {LIST_MAX}", statuses.len());
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
