//! A server's load, as ORCA has it: beside a call's response, and out of band.

use std::sync::Arc;
use std::time::Duration;

use petasos::Msg;
use petasos_orca::{LoadReporter, LoadService, OpenRcaServiceServer, OrcaLoadReport, service_with};

use crate::service::TestOrcaReport;

/// Reports are no closer together.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The load that a server reports to whoever asks, which clients of the tests choose. Clones share
/// it.
#[derive(Clone, Debug, Default)]
pub struct Load {
    reporter: LoadReporter,
    /// Held by who chooses the load.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Load {
    /// With the service that tells it out of band.
    pub fn new() -> (Load, OpenRcaServiceServer<LoadService>) {
        let (reporter, service) = service_with(INTERVAL_MIN);
        (Load { reporter, ..Load::default() }, service)
    }

    /// Waits until nobody else chooses the load: two tests at a time would see each other's.
    pub async fn turn(&self) -> impl Drop + use<'_> {
        self.turn.lock().await
    }

    /// Reports this from now on.
    pub fn set(&self, report: Msg<OrcaLoadReport>) {
        self.reporter.set(report);
    }
}

/// A client's wish as a report.
pub(crate) fn report(wanted: &TestOrcaReport) -> Msg<OrcaLoadReport> {
    let mut report = OrcaLoadReport::new();
    let mut edit = report.edit();
    edit.set_cpu_utilization(wanted.cpu_utilization());
    edit.set_mem_utilization(wanted.memory_utilization());
    for (name, value) in wanted.request_cost().iter() {
        edit.request_cost_mut().insert(name, *value);
    }
    for (name, value) in wanted.utilization().iter() {
        edit.utilization_mut().insert(name, *value);
    }
    report
}
