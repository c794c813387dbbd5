//! A server's load reports (ORCA): with a call's response, and out of band.

use std::sync::Arc;
use std::time::Duration;

use petasos::Msg;
use petasos_orca::{LoadReporter, LoadService, OpenRcaServiceServer, OrcaLoadReport, service_with};

use crate::service::TestOrcaReport;

/// The minimum interval between reports.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The load that a server reports, which the tests' clients choose. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Load {
    reporter: LoadReporter,
    /// Locked by the test that chooses the load.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Load {
    /// A load, and the service that reports it out of band.
    pub fn new() -> (Load, OpenRcaServiceServer<LoadService>) {
        let (reporter, service) = service_with(INTERVAL_MIN);
        (Load { reporter, ..Load::default() }, service)
    }

    /// Waits until no other test chooses the load: concurrent tests would see each other's.
    pub async fn turn(&self) -> impl Drop + use<'_> {
        self.turn.lock().await
    }

    /// Sets the report from now on.
    pub fn set(&self, report: Msg<OrcaLoadReport>) {
        self.reporter.set(report);
    }
}

/// The report that a client asks for.
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
