//! The interceptors that come with the crate: what they count, and the spans they open.

mod flow;

use flow::generated::{FlowClient, FlowServer};
use flow::{World, chunk, plan};
use petasos::intercept::{MethodMetrics, Side};
use petasos::{Code, Interceptor, Metrics};

/// Both ends in one loop, with an interceptor at each.
fn world(client: impl Interceptor, server: impl Interceptor) -> World {
    let mut world = World::bare();
    world.event_loop.intercept(server);
    let service = FlowServer::new(world.service.clone());
    world.event_loop.serve(service).expect("it is the only service");
    world.client = FlowClient::new(world.event_loop.channel_to_itself().intercept(client));
    world
}

fn of<'a>(all: &'a [MethodMetrics], side: Side, method: &str) -> &'a MethodMetrics {
    let found = all.iter().find(|of| of.side == side && of.method == method);
    found.expect("it was called")
}

#[test]
fn calls_messages_and_bytes_are_counted_at_both_ends() {
    let metrics = Metrics::new().with_bytes();
    let world = world(metrics.clone(), metrics.clone());
    world.run(async {
        for _ in 0..3 {
            world.client.echo(chunk(1, 100)).await.expect("it answers");
        }
        let failing = world.client.produce(plan("fail", 2, 10)).await;
        let mut chunks = failing.expect("it begins");
        while let Ok(Some(_)) = chunks.message().await {}
        let mut upload = world.client.collect();
        for number in 0..4 {
            upload.send(chunk(number, 10)).await.expect("it is taken");
        }
        upload.finish().await.expect("it answers");
    });
    world.turn();
    let all = metrics.snapshot();
    assert_eq!(all.len(), 6, "{all:?}");
    for side in [Side::Server, Side::Client] {
        let echo = of(&all, side, "Echo");
        assert_eq!((echo.started, echo.handled_with(Code::Ok)), (3, 3), "{side:?}");
        assert_eq!((echo.received, echo.sent), (3, 3));
        // Two bytes of number, two before a hundred.
        assert_eq!((echo.received_bytes, echo.sent_bytes), (3 * 104, 3 * 104));
        assert_eq!(echo.latency.iter().sum::<u64>(), 3);
        let produce = of(&all, side, "Produce");
        assert_eq!(produce.handled_with(Code::NotFound), 1);
        assert_eq!(produce.handled.iter().sum::<u64>(), 1);
        let collect = of(&all, side, "Collect");
        let (many, one) = match side {
            Side::Server => (collect.received, collect.sent),
            Side::Client => (collect.sent, collect.received),
        };
        assert_eq!((many, one, collect.handled_with(Code::Ok)), (4, 1, 1));
    }
}

#[test]
fn prometheus_reads_the_counters() {
    let metrics = Metrics::new();
    let world = world(Nothing, metrics.clone());
    assert_eq!(metrics.to_prometheus(), "");
    world.run(async { world.client.echo(chunk(1, 1)).await }).expect("it answers");
    let text = metrics.to_prometheus();
    let of = format!("service=\"{}\",method=\"Echo\"", metrics.snapshot()[0].service);
    for line in [
        "# TYPE rpc_server_started_total counter".to_owned(),
        format!("rpc_server_started_total{{{of}}} 1"),
        format!("rpc_server_handled_total{{{of},code=\"OK\"}} 1"),
        format!("rpc_server_msg_sent_total{{{of}}} 1"),
        "# TYPE rpc_server_handling_seconds histogram".to_owned(),
        format!("rpc_server_handling_seconds_bucket{{{of},le=\"+Inf\"}} 1"),
        format!("rpc_server_handling_seconds_count{{{of}}} 1"),
    ] {
        assert_eq!(text.lines().filter(|known| *known == line).count(), 1, "{line}\n{text}");
    }
    assert!(!text.contains("client") && !text.contains("bytes"), "{text}");
    // On a virtual clock that stands still, all calls are in the first bucket.
    let first = "method=\"Echo\",le=\"0.000005\"} 1";
    assert!(text.contains(first), "{text}");
}

struct Nothing;

impl Interceptor for Nothing {}

#[cfg(feature = "tracing")]
mod spans {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use petasos::{Request, TraceContext, Tracing};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::flow::asking;

    type Fields = BTreeMap<&'static str, String>;

    /// Keeps the fields of all spans.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<Fields>>>);

    struct Writer<'a>(&'a mut Fields);

    impl Visit for Writer<'_> {
        fn record_str(&mut self, field: &Field, value: &str) {
            self.0.insert(field.name(), value.to_owned());
        }

        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.insert(field.name(), format!("{value:?}"));
        }
    }

    impl Subscriber for Recorder {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.is_span()
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut fields = Fields::new();
            span.record(&mut Writer(&mut fields));
            let mut spans = self.0.lock().expect("no test panics under the lock");
            spans.push(fields);
            Id::from_u64(spans.len() as u64)
        }

        fn record(&self, span: &Id, values: &Record<'_>) {
            let mut spans = self.0.lock().expect("no test panics under the lock");
            values.record(&mut Writer(&mut spans[span.into_u64() as usize - 1]));
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn each_end_has_a_span_in_the_same_trace() {
        let recorder = Recorder::default();
        let _guard = tracing::subscriber::set_default(recorder.clone());
        let world = world(Tracing::new(), Tracing::new());
        let trace = TraceContext { trace_id: [9; 16], span_id: [5; 8], flags: 1 };
        world.run(async {
            let request = Request::new(asking(1, "")).with_trace(trace);
            world.client.echo(request).await.expect("it answers");
            let mut chunks = world.client.produce(plan("fail", 0, 0)).await.expect("it begins");
            chunks.message().await.expect_err("it fails");
        });
        let spans = recorder.0.lock().expect("no test panics under the lock");
        let [client, server, ..] = &spans[..] else { panic!("{spans:?}") };
        for (span, kind) in [(client, "client"), (server, "server")] {
            assert_eq!(span["otel.kind"], kind);
            assert_eq!((&*span["rpc.method"], &*span["rpc.system"]), ("Echo", "petasos"));
            assert_eq!(span["trace_id"], "09".repeat(16));
            assert_eq!(span["rpc.grpc.status_code"], "0");
            assert!(!span.contains_key("otel.status_code"));
        }
        assert_eq!(client["parent_id"], "05".repeat(8));
        assert_eq!(server["parent_id"], client["span_id"]);
        let began = &spans[2];
        assert_eq!((&*began["rpc.grpc.status_code"], &*began["otel.status_code"]), ("5", "ERROR"));
        assert!(!began.contains_key("parent_id"), "it began a trace: {began:?}");
        assert_eq!(began["trace_id"], spans[3]["trace_id"]);
    }
}
