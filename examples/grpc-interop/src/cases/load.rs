//! Cases of load reports (ORCA).

use std::time::Duration;

use petasos::message::{DecodeLimits, Input};
use petasos::{Msg, Streaming};
use petasos_orca::{OpenRcaServiceClient, OrcaLoadReport, OrcaLoadReportRequest};

use super::{Outcome, Target, check, equal, text};
use crate::service::{SimpleRequest, StreamingOutputCallRequest, TestOrcaReport};
use crate::{LOAD_REPORT, load};

/// How long to wait for a report.
const PATIENCE: Duration = Duration::from_secs(10);

/// Utilisation of processors and of memory, a cost, and a named utilisation.
type Wanted = (f64, f64, Option<f64>, f64);

const PER_CALL: Wanted = (0.8210, 0.5847, Some(3456.32), 0.30499);
/// Utilisations are at most 1: servers ignore greater ones.
const OUT_OF_BAND: [Wanted; 2] = [(0.8210, 0.5847, None, 0.30499), (0.29309, 0.2, None, 0.2039)];

pub(super) async fn orca_per_rpc(target: &Target) -> Outcome<()> {
    let mut request = SimpleRequest::new();
    request.set_orca_per_query_report(&wanted(PER_CALL));
    let response = target.client().await?.unary_call(request).await.map_err(text)?;
    let bytes = response.trailers().get_bin(LOAD_REPORT).ok_or("there is no load report")?;
    let limits = DecodeLimits::for_input(bytes.len());
    let report = Msg::<OrcaLoadReport>::from_protobuf(Input::Borrowed(bytes), &limits);
    let report = report.map_err(|error| error.to_string())?;
    let expected = load::report(&wanted(PER_CALL));
    check(report == expected, || format!("{report:?} instead of {expected:?}"))
}

pub(super) async fn orca_oob(target: &Target) -> Outcome<()> {
    let channel = target.connect().await?;
    let mut asked = OrcaLoadReportRequest::new();
    asked.report_interval_mut().set_seconds(1);
    let reports = OpenRcaServiceClient::new(channel).stream_core_metrics(asked);
    let mut reports = reports.await.map_err(text)?;
    let (mut requests, mut responses) =
        target.client().await?.full_duplex_call().await.map_err(text)?;
    for values in OUT_OF_BAND {
        let mut request = StreamingOutputCallRequest::new();
        request.set_orca_oob_report(&wanted(values));
        request.response_parameters_mut().add().set_size(1);
        requests.send(request).await.map_err(text)?;
        let response = responses.message().await.map_err(text)?;
        equal(response.is_some(), true)?;
        let expected = load::report(&wanted(values));
        let told = tokio::time::timeout(PATIENCE, expect(&mut reports, &expected)).await;
        told.map_err(|_| "the load is not reported".to_owned())??;
    }
    requests.close();
    equal(responses.message().await.map_err(text)?.is_none(), true)
}

/// Waits for a report with these values.
async fn expect(
    reports: &mut Streaming<OrcaLoadReport>,
    expected: &Msg<OrcaLoadReport>,
) -> Outcome<()> {
    while let Some(report) = reports.message().await.map_err(text)? {
        if report == *expected {
            return Ok(());
        }
    }
    Err("the reports have ended".to_owned())
}

fn wanted((cpu, memory, cost, utilization): Wanted) -> Msg<TestOrcaReport> {
    let mut report = TestOrcaReport::new();
    let mut edit = report.edit();
    edit.set_cpu_utilization(cpu).set_memory_utilization(memory);
    edit.utilization_mut().insert("util", utilization);
    if let Some(cost) = cost {
        edit.request_cost_mut().insert("cost", cost);
    }
    report
}
