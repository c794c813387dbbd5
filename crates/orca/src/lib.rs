//! Out-of-band load reports as in gRPC (ORCA): a service that reports a server's load at an
//! interval, for clients and proxies that weight their servers by load.
//!
//! ```
//! let (reporter, service) = petasos_orca::service();
//! reporter.update(|report| {
//!     report.set_cpu_utilization(0.3).set_rps_fractional(1200.0);
//! });
//! # let _ = service;
//! // Serve `service` beside the others, and go on updating.
//! ```
//!
//! Source: gRFC A51. Petasos' own transport sends the load with each response and does not need
//! this (`docs/spec/call.md`, R7).

#[rustfmt::skip]
pub(crate) mod generated;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use petasos::{Msg, Request, Sender, Status, background_runtime};
use tokio::time::{Sleep, sleep};

pub use generated::{
    OpenRcaService, OpenRcaServiceClient, OpenRcaServiceServer, OrcaLoadReport,
    OrcaLoadReportRequest,
};

/// The shortest interval between reports to one client, unless [`service_with`] sets another.
pub const INTERVAL_MIN: Duration = Duration::from_secs(30);

/// How many costs one client may name. The names are kept for as long as it listens.
pub const COST_NAMES_MAX: usize = 256;

/// The service, and a reporter that sets the load. At first the load is empty.
pub fn service() -> (LoadReporter, OpenRcaServiceServer<LoadService>) {
    service_with(INTERVAL_MIN)
}

/// Like [`service`], with another shortest interval. Each report costs the server time, so clients
/// cannot choose a shorter one. The least is a millisecond.
pub fn service_with(interval_min: Duration) -> (LoadReporter, OpenRcaServiceServer<LoadService>) {
    let reporter = LoadReporter::default();
    let interval_min = interval_min.max(Duration::from_millis(1));
    let service = LoadService { reporter: reporter.clone(), interval_min };
    (reporter, OpenRcaServiceServer::new(service))
}

/// Sets the reported load. Clones set the same load.
#[derive(Clone, Debug, Default)]
pub struct LoadReporter {
    report: Arc<Mutex<Msg<OrcaLoadReport>>>,
}

impl LoadReporter {
    /// Sets the report.
    pub fn set(&self, report: Msg<OrcaLoadReport>) {
        self.change(|kept| *kept = report);
    }

    /// Changes the report. It works on a copy, so that setting the same values again and again does
    /// not use more and more memory.
    pub fn update(&self, change: impl FnOnce(&mut Msg<OrcaLoadReport>)) {
        self.change(|kept| {
            change(kept);
            *kept = Msg::from(&***kept);
        });
    }

    /// The present report.
    pub fn report(&self) -> Msg<OrcaLoadReport> {
        self.change(|kept| kept.clone())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Msg<OrcaLoadReport>) -> T) -> T {
        // If a change has panicked half-way, the report is still valid, with some of the new
        // values.
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Streams reports; see [`service`].
#[derive(Debug)]
pub struct LoadService {
    reporter: LoadReporter,
    interval_min: Duration,
}

impl OpenRcaService for LoadService {
    async fn stream_core_metrics(
        &self,
        request: Request<OrcaLoadReportRequest>,
        mut reports: Sender<OrcaLoadReport>,
    ) -> Result<(), Status> {
        let asked = request.report_interval().and_then(|interval| interval.to_std().ok());
        let interval = asked.unwrap_or_default().max(self.interval_min);
        let names = request.request_cost_names();
        if names.len() > COST_NAMES_MAX {
            let text = format!("{} costs are named, the limit is {COST_NAMES_MAX}", names.len());
            return Err(Status::invalid_argument(text));
        }
        let wanted: Vec<String> = names.iter().map(|name| name.as_str().to_owned()).collect();
        drop(request);
        // The client ends the stream by cancelling the call.
        loop {
            reports.send(only(self.reporter.report(), &wanted)).await?;
            pause(interval)?.await;
        }
    }
}

/// A timer of the process's own runtime, because the handler may run on a loop without Tokio.
fn pause(interval: Duration) -> Result<Sleep, Status> {
    let runtime = background_runtime().map_err(|error| {
        Status::resource_exhausted(format!("the server has no thread for timers: {error}"))
    })?;
    let _context = runtime.enter();
    Ok(sleep(interval))
}

/// Removes all costs from the report except those that are wanted, if any are named.
fn only(mut report: Msg<OrcaLoadReport>, wanted: &[String]) -> Msg<OrcaLoadReport> {
    if wanted.is_empty() {
        return report;
    }
    let is_wanted = |name: &&str| wanted.iter().any(|wanted| wanted == name);
    let names = report.request_cost().keys();
    let others: Vec<String> = names.filter(|name| !is_wanted(name)).map(str::to_owned).collect();
    for name in &others {
        report.edit().request_cost_mut().remove(name);
    }
    report
}
