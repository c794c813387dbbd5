//! A span of `tracing` for each call.

use std::cell::RefCell;

use petasos_base::{Rng, random_seed};
use petasos_call::{Code, TraceContext};
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::{CallInfo, Interceptor, Outcome, Side, Step};

/// Opens a span named `rpc` for each call, with the fields of OpenTelemetry's conventions for RPCs:
/// `rpc.system` (`petasos`, or `grpc` over HTTP/2), `rpc.service`, `rpc.method`,
/// `rpc.grpc.status_code`, `network.peer.address`, and `otel.name`, `otel.kind` and
/// `otel.status_code` for bridges. Handlers are polled within it, and find it in their request's
/// extensions.
///
/// It also gives each call its own span id in the trace that the call belongs to, or begins a trace
/// (`trace_id`, `span_id` and `parent_id` in the span). A client sends this; at a server the
/// handler gets it, and can pass it on with
/// [`Request::with_trace`](crate::request::Request::with_trace).
#[derive(Clone, Debug, Default)]
pub struct Tracing {
    only_continues: bool,
}

impl Tracing {
    /// Opens spans, and begins a trace for each call that belongs to none.
    pub fn new() -> Tracing {
        Tracing::default()
    }

    /// Continues traces, but begins none.
    #[must_use]
    pub fn only_continuing(self) -> Tracing {
        Tracing { only_continues: true }
    }

    /// The call's own place in its trace.
    fn place(&self, parent: Option<TraceContext>) -> Option<TraceContext> {
        if parent.is_none() && self.only_continues {
            return None;
        }
        let begin = || TraceContext { trace_id: random_bytes(), span_id: [0; 8], flags: 1 };
        Some(TraceContext { span_id: random_bytes(), ..parent.unwrap_or_else(begin) })
    }
}

impl Interceptor for Tracing {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        let (service, method) = (call.service(), call.method().name);
        let span = info_span!(
            "rpc",
            otel.name = format_args!("{service}/{method}"),
            otel.kind = if call.side() == Side::Server { "server" } else { "client" },
            otel.status_code = Empty,
            rpc.system = if call.is_grpc() { "grpc" } else { "petasos" },
            rpc.service = service,
            rpc.method = method,
            rpc.grpc.status_code = Empty,
            network.peer.address = Empty,
            trace_id = Empty,
            span_id = Empty,
            parent_id = Empty,
        );
        if let Some(peer) = call.peer() {
            span.record("network.peer.address", tracing::field::display(peer.address()));
        }
        let parent = call.trace().copied();
        if let Some(place) = self.place(parent) {
            note(&span, &place, parent.as_ref());
            call.set_trace(place);
        }
        call.extensions_mut().insert(span);
        Step::Continue
    }

    fn ended(&self, call: &CallInfo, outcome: &Outcome<'_>) {
        let Some(span) = call.extensions().get::<Span>() else { return };
        span.record("rpc.grpc.status_code", outcome.code().number());
        if outcome.code() != Code::Ok {
            span.record("otel.status_code", "ERROR");
        }
        if let Some(status) = outcome.status() {
            tracing::debug!(parent: span, %status, "the call failed");
        }
    }
}

fn note(span: &Span, place: &TraceContext, parent: Option<&TraceContext>) {
    let text = place.to_string();
    span.record("trace_id", &text[3..35]);
    span.record("span_id", &text[36..52]);
    if let Some(parent) = parent {
        span.record("parent_id", &parent.to_string()[36..52]);
    }
}

/// Random bytes that are not all zero.
fn random_bytes<const N: usize>() -> [u8; N] {
    thread_local! {
        static RNG: RefCell<Rng> = RefCell::new(Rng::new(random_seed()));
    }
    let mut bytes = [0; N];
    RNG.with_borrow_mut(|rng| {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&rng.next_u64().max(1).to_be_bytes()[..part.len()]);
        }
    });
    bytes
}
