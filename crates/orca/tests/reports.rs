//! A server's load as its clients hear it, over datagrams and gRPC.

use std::time::Duration;

use petasos::grpc::GrpcConfig;
use petasos::{Channel, Code, Msg, Server, Streaming, block_on};
use petasos_orca::{
    COST_NAMES_MAX, INTERVAL_MIN, LoadReporter, OpenRcaServiceClient, OrcaLoadReport,
    OrcaLoadReportRequest, service, service_with,
};

/// Short enough for a test.
const SHORT: Duration = Duration::from_millis(2);

/// A server, and the targets of its two ports.
fn start(interval_min: Option<Duration>) -> (Server, LoadReporter, [String; 2]) {
    let (reporter, service) = interval_min.map_or_else(service, service_with);
    let server = Server::builder().add(service);
    let server = server.listen("127.0.0.1:0").grpc("127.0.0.1:0", GrpcConfig::default());
    let server = server.start().expect("loopback has ports");
    let datagrams = format!("petasos://{}", server.local_address().expect("it listens"));
    let grpc = format!("grpc://{}", server.grpc_address().expect("it listens"));
    (server, reporter, [datagrams, grpc])
}

fn watch(target: &str, request: Msg<OrcaLoadReportRequest>) -> Streaming<OrcaLoadReport> {
    let channel = block_on(Channel::connect(target)).expect("the server is up");
    let client = OpenRcaServiceClient::new(channel);
    block_on(client.stream_core_metrics(request)).expect("the server has the service")
}

fn next(reports: &mut Streaming<OrcaLoadReport>) -> Msg<OrcaLoadReport> {
    block_on(reports.message()).expect("the server is up").expect("reports do not end")
}

#[test]
fn reports_follow_the_load() {
    let (_server, reporter, targets) = start(Some(SHORT));
    for target in targets {
        reporter.set(OrcaLoadReport::new());
        let mut reports = watch(&target, OrcaLoadReportRequest::new());
        assert_eq!(next(&mut reports), OrcaLoadReport::new());
        reporter.update(|report| {
            report.set_cpu_utilization(0.5);
            report.edit().named_metrics_mut().insert("queue", 7.0);
        });
        let mut heard = next(&mut reports);
        // Those that were on the way are older.
        while heard.cpu_utilization() == 0.0 {
            heard = next(&mut reports);
        }
        assert_eq!(heard, reporter.report(), "{target}");
        assert_eq!(heard.named_metrics().get("queue"), Some(&7.0));
    }
}

#[test]
fn clients_hear_the_costs_that_they_name() {
    let (_server, reporter, targets) = start(Some(SHORT));
    let mut report = OrcaLoadReport::new();
    report.edit().request_cost_mut().extend([("disk", 2.0), ("network", 3.0)]);
    reporter.set(report.clone());
    for target in targets {
        let mut request = OrcaLoadReportRequest::new();
        request.edit().request_cost_names_mut().push("disk").push("tape");
        let heard = next(&mut watch(&target, request));
        let costs: Vec<_> = heard.request_cost().iter().map(|(name, cost)| (name, *cost)).collect();
        assert_eq!(costs, [("disk", 2.0)], "{target}");
        assert_eq!(next(&mut watch(&target, OrcaLoadReportRequest::new())), report);
    }
}

/// A client that asks for reports without a pause gets the first, and then has to wait as long as
/// the server says.
#[test]
fn no_client_makes_the_server_report_without_end() {
    let (_server, reporter, targets) = start(None);
    assert!(INTERVAL_MIN > Duration::from_secs(1));
    for target in targets {
        let mut request = OrcaLoadReportRequest::new();
        request.edit().report_interval_mut().set_nanos(1);
        let mut reports = watch(&target, request);
        next(&mut reports);
        reporter.update(|report| {
            report.set_eps(1.0);
        });
        let more = std::thread::spawn(move || next(&mut reports));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!more.is_finished(), "{target}");
    }
}

#[test]
fn values_that_are_set_again_take_no_more_memory() {
    let (reporter, _service) = service();
    let bytes = || Msg::into_native_buf(reporter.report()).expect("it is small").len();
    let set = |name: &str| {
        reporter.update(|report| {
            report.edit().utilization_mut().insert(name, 0.5);
        });
    };
    set("a");
    let once = bytes();
    (0..1000).for_each(|_| set("a"));
    assert_eq!(bytes(), once);
}

#[test]
fn a_client_that_names_costs_without_end_is_refused() {
    let (_server, _reporter, targets) = start(Some(SHORT));
    for target in targets {
        let named = |count| {
            let mut request = OrcaLoadReportRequest::new();
            for _ in 0..count {
                request.edit().request_cost_names_mut().push("disk");
            }
            request
        };
        next(&mut watch(&target, named(COST_NAMES_MAX)));
        let refused = block_on(watch(&target, named(COST_NAMES_MAX + 1)).message());
        assert_eq!(refused.expect_err("it is one too many").code(), Code::InvalidArgument);
    }
}
