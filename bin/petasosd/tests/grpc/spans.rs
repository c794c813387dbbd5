//! Spans are sent to an OpenTelemetry collector, which is a gRPC server of this test.

use std::collections::HashSet;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use petasos::grpc::GrpcConfig;
use petasos::{Request, Response, Server, Status};

use crate::facade::managed::WorkClient;
use crate::facade::{Daemon, item};
use crate::support::{Application, PATIENCE};

#[allow(missing_docs, reason = "the .proto file has them")]
mod otlp {
    petasos::include_proto!("opentelemetry.proto.collector.trace.v1");
}

use otlp::{
    ExportTraceServiceRequest, ExportTraceServiceResponse, SpanKind, StatusCode, TraceService,
    TraceServiceServer,
};

/// A span that has arrived.
#[derive(Clone, Debug)]
struct Seen {
    service: String,
    name: String,
    kind: SpanKind,
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    has_failed: bool,
    peer: String,
}

/// The text of an attribute.
fn text(attributes: &[otlp::KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|one| one.key() == key).and_then(|one| one.value()?.value());
    let Some(otlp::any_value::Value::StringValue(text)) = found else { panic!("no {key}") };
    text.to_owned()
}

struct Collector(Sender<Seen>);

impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.resource_spans().iter() {
            let service = text(resource.resource().unwrap().attributes(), "service.name");
            for span in resource.scope_spans().iter().flat_map(|scope| scope.spans().iter()) {
                let status = span.status().map(|status| status.code());
                assert!(span.start_time_unix_nano() <= span.end_time_unix_nano());
                let _ = self.0.send(Seen {
                    service: service.clone(),
                    name: span.name().to_owned(),
                    kind: span.kind(),
                    trace: span.trace_id().to_vec(),
                    id: span.span_id().to_vec(),
                    parent: span.parent_span_id().to_vec(),
                    has_failed: status == Some(StatusCode::ERROR),
                    peer: text(span.attributes(), "petasos.peer"),
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::new()))
    }
}

fn collect(address: &str) -> (Server, Receiver<Seen>) {
    let (tell, told) = channel();
    let server = Server::builder()
        .add(TraceServiceServer::new(Collector(tell)))
        .grpc(address, GrpcConfig::default());
    (server.start().unwrap(), told)
}

fn take(told: &Receiver<Seen>, count: usize) -> Vec<Seen> {
    (0..count).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect()
}

#[test]
fn spans_of_calls_are_sent_once_also_if_the_collector_comes_late() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let policies = r#"[{"application": "*", "kind": "tracing",
                        "configuration": {"probability": 1.0}}]"#;
    let target = format!("grpc://{free}");
    let options = ["--otlp", &target, "--otlp-interval", "1"];
    let daemon = Daemon::start_more("spans", Some(policies), &options);
    let application = Application::start(&daemon);
    let event_loop = daemon.event_loop("client");
    let target = application.target();
    let channel = petasos::Channel::builder(&target).connect_lazily().unwrap();
    let client = WorkClient::new(channel);
    event_loop.block_on(async {
        client.echo(item("one", 1)).await.unwrap();
        client.echo(item("two", 2)).await.unwrap();
        client.fail(item("three", 13)).await.unwrap_err();
    });
    // It has tried in vain before.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let (_collector, told) = collect(&free);
    let mut seen = take(&told, 6);
    event_loop.block_on(async { client.echo(item("four", 4)).await.unwrap() });
    seen.extend(take(&told, 2));
    let ids: HashSet<_> = seen.iter().map(|span| span.id.clone()).collect();
    assert_eq!(ids.len(), 8, "none comes twice: {seen:?}");
    assert!(told.recv_timeout(std::time::Duration::from_millis(2500)).is_err(), "nor later");

    let of = |service: &str| -> Vec<Seen> {
        seen.iter().filter(|span| span.service == service).cloned().collect()
    };
    let (made, served) = (of("client"), of("server"));
    assert_eq!((made.len(), served.len()), (4, 4), "{seen:?}");
    for span in &made {
        assert_eq!((span.kind, &*span.parent), (SpanKind::CLIENT, &[][..]));
        let callee: Vec<_> = served.iter().filter(|one| one.parent == span.id).collect();
        let [callee] = callee[..] else { panic!("{span:?}: {served:?}") };
        assert_eq!((callee.kind, &callee.trace), (SpanKind::SERVER, &span.trace));
        assert_eq!((&callee.name, callee.has_failed), (&span.name, span.has_failed));
        assert_eq!((&*callee.peer, &*span.peer), ("client", &*target));
        assert_eq!(span.has_failed, span.name == "managed.Work/Fail", "{span:?}");
    }
}

#[test]
fn a_service_that_hands_over_sends_its_last_spans() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let policies = r#"[{"application": "*", "kind": "tracing",
                        "configuration": {"probability": 1.0}}]"#;
    let (_collector, told) = collect(&free);
    let target = format!("grpc://{free}");
    // It never comes to that interval.
    let options = ["--otlp", &target, "--otlp-interval", "3600"];
    let mut daemon = Daemon::start_more("last-spans", Some(policies), &options);
    let application = Application::start(&daemon);
    let event_loop = daemon.event_loop("client");
    let target = application.target();
    let channel = petasos::Channel::builder(&target).connect_lazily().unwrap();
    let client = WorkClient::new(channel);
    event_loop.block_on(async { client.echo(item("one", 1)).await.unwrap() });
    let mut successor = Command::new(env!("CARGO_BIN_EXE_petasosd"));
    successor.arg("--takeover").arg("--socket").arg(daemon.folder().join("socket"));
    let successor = successor.stderr(Stdio::null()).spawn().unwrap();
    let mut former = daemon.succeeded(successor);
    // Those who are attached move while their loops turn.
    while former.try_wait().unwrap().is_none() {
        event_loop.block_on(async { client.echo(item("two", 2)).await.unwrap() });
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // It waits until they are there. Those of calls that it has passed since come with the first.
    let seen: Vec<Seen> = told.try_iter().collect();
    let names: HashSet<_> = seen.iter().map(|span| (&*span.service, &*span.name)).collect();
    let echo = "managed.Work/Echo";
    assert_eq!(names, HashSet::from([("client", echo), ("server", echo)]), "{seen:?}");
}
