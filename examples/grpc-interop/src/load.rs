//! A server's load, as ORCA has it: beside a call's response, and out of band.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use petasos::{Msg, Request, Sender, Status};

use crate::orca::{OpenRcaService, OrcaLoadReport, OrcaLoadReportRequest};
use crate::service::TestOrcaReport;

/// Reports are no closer together.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The load that a server reports to whoever asks, which clients of the tests choose. Clones share
/// it.
#[derive(Clone, Debug, Default)]
pub struct Load(Arc<State>);

#[derive(Debug, Default)]
struct State {
    report: Mutex<Msg<OrcaLoadReport>>,
    /// Held by who chooses the load.
    turn: tokio::sync::Mutex<()>,
}

impl Load {
    /// Waits until nobody else chooses the load: two tests at a time would see each other's.
    pub async fn turn(&self) -> impl Drop + use<'_> {
        self.0.turn.lock().await
    }

    /// Reports this from now on.
    pub fn set(&self, report: Msg<OrcaLoadReport>) {
        *self.0.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    fn get(&self) -> Msg<OrcaLoadReport> {
        self.0.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl OpenRcaService for Load {
    async fn stream_core_metrics(
        &self,
        request: Request<OrcaLoadReportRequest>,
        mut reports: Sender<OrcaLoadReport>,
    ) -> Result<(), Status> {
        let interval = request.report_interval().and_then(|interval| interval.to_std().ok());
        let interval = interval.unwrap_or_default().max(INTERVAL_MIN);
        // Until the client has enough.
        loop {
            reports.send(self.get()).await?;
            tokio::time::sleep(interval).await;
        }
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
