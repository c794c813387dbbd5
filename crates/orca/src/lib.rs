//! Load reports out of band, as gRPC has them (ORCA): a service that tells a server's load at an
//! interval, for clients and proxies that weigh their servers by it.
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
//! Source: gRFC A51. Load that travels with each response of Petasos' own transport needs none of
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

/// Reports to one client are no closer together, unless [`service_with`] says otherwise.
pub const INTERVAL_MIN: Duration = Duration::from_secs(30);

/// Costs that one client may name: they are kept for as long as it listens.
pub const COST_NAMES_MAX: usize = 256;

/// The service, and what sets the load that it reports: nothing at first.
pub fn service() -> (LoadReporter, OpenRcaServiceServer<LoadService>) {
    service_with(INTERVAL_MIN)
}

/// [`service`] with another bound on the interval, as each report costs the server time whatever
/// its clients ask for. A millisecond is the least.
pub fn service_with(interval_min: Duration) -> (LoadReporter, OpenRcaServiceServer<LoadService>) {
    let reporter = LoadReporter::default();
    let interval_min = interval_min.max(Duration::from_millis(1));
    let service = LoadService { reporter: reporter.clone(), interval_min };
    (reporter, OpenRcaServiceServer::new(service))
}

/// Sets the load that is reported. Clones set the same.
#[derive(Clone, Debug, Default)]
pub struct LoadReporter {
    report: Arc<Mutex<Msg<OrcaLoadReport>>>,
}

impl LoadReporter {
    /// Reports this from now on.
    pub fn set(&self, report: Msg<OrcaLoadReport>) {
        self.change(|kept| *kept = report);
    }

    /// Changes what is reported. What was written before is copied first, so that values that are
    /// set again and again take no more memory.
    pub fn update(&self, change: impl FnOnce(&mut Msg<OrcaLoadReport>)) {
        self.change(|kept| {
            change(kept);
            *kept = Msg::from(&***kept);
        });
    }

    /// What is reported now.
    pub fn report(&self) -> Msg<OrcaLoadReport> {
        self.change(|kept| kept.clone())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Msg<OrcaLoadReport>) -> T) -> T {
        // A report is whole also if a change panicked half-way: it has some of the new values.
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
            let text = format!("{} costs are named, at most {COST_NAMES_MAX} may be", names.len());
            return Err(Status::invalid_argument(text));
        }
        let wanted: Vec<String> = names.iter().map(|name| name.as_str().to_owned()).collect();
        drop(request);
        // Until the client has enough.
        loop {
            reports.send(only(self.reporter.report(), &wanted)).await?;
            pause(interval)?.await;
        }
    }
}

/// The handler may run on a loop without Tokio: the timer is that of the process's own runtime.
fn pause(interval: Duration) -> Result<Sleep, Status> {
    let runtime = background_runtime().map_err(|error| {
        Status::resource_exhausted(format!("the server has no thread for timers: {error}"))
    })?;
    let _context = runtime.enter();
    Ok(sleep(interval))
}

/// The report with no costs but those that are wanted, if any are named.
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
