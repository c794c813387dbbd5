//! Sends spans to an OpenTelemetry collector: OTLP over gRPC.
//!
//! Policies of the kind `tracing` keep the last spans that they have recorded. A task of the thread
//! that serves operators looks at them again and again, and sends those that it has not sent yet.
//! The loop only tells which policies there are.
//!
//! # Invariants
//! - A span is sent once, unless the collector has not said that it has it. It is told from others
//!   by its context.
//! - What cannot be sent is tried again for as long as its policy keeps it. Memory is bounded by
//!   what policies keep.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use petasos::{Channel, Code, Msg, Request, Security, ServiceChoice, Status, TraceContext};
use petasos_base::SystemClock;
use petasos_engine::Policy;
use petasos_operator::unix_time;
use petasos_service::{Host, PolicyNames};
use serde::Deserialize;

use crate::transport::client_config;

/// The part of OTLP that is used.
pub mod api {
    #![allow(missing_docs, reason = "generated")]
    petasos::include_proto!("opentelemetry.proto.collector.trace.v1");
}

use api::{ExportTraceServiceRequest, KeyValueMut, SpanKind, StatusCode, TraceServiceClient};

/// How long the collector may take.
const EXPORT_MAX: Duration = Duration::from_secs(10);
/// As many spans are sent at a time: collectors take requests of 4 MiB.
const SPANS_AT_A_TIME: usize = 2048;

/// Where spans are sent, and how often.
#[derive(Clone)]
pub struct OtlpConfig {
    /// `grpc://HOST:PORT` or `grpcs://HOST:PORT`.
    pub target: String,
    /// How often.
    pub every: Duration,
    /// As for other hosts.
    pub security: Security,
}

/// What there is to look at: the policies that record spans, and who knows what numbers mean.
pub struct Recorders {
    /// The policies.
    pub policies: Vec<Arc<dyn Policy>>,
    /// It has the names.
    pub host: Arc<Host>,
}

/// A span, as a policy reports it.
#[derive(Clone, Debug, Deserialize)]
struct Recorded {
    context: String,
    parent: Option<String>,
    application: u32,
    method: serde_json::Value,
    peer: u32,
    #[serde(default)]
    is_served: bool,
    began_ns: u64,
    ended_ns: u64,
    code: String,
}

#[derive(Deserialize)]
struct Report {
    spans: Vec<Recorded>,
}

/// Sends what policies have recorded.
pub struct Exporter {
    client: TraceServiceClient,
    every: Duration,
    clock: SystemClock,
    /// Contexts of spans that were sent and that policies still keep.
    sent: HashSet<String>,
    /// Those that there were at the last look: one that is gone now is looked at once more.
    before: Vec<Arc<dyn Policy>>,
    is_failing: bool,
    is_rejecting: bool,
}

impl OtlpConfig {
    /// Checks the target, as far as that can be done without the collector.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |why: &str| format!("--otlp {}: {why}", self.target);
        let (scheme, list) = self.target.split_once("://").unwrap_or_default();
        let is_secure = match scheme {
            "grpc" => false,
            "grpcs" => true,
            _ => return Err(wrong("it is neither grpc://HOST:PORT nor grpcs://HOST:PORT")),
        };
        if petasos::hosts(list).is_none() {
            return Err(wrong(&format!("it is not {scheme}://HOST:PORT")));
        }
        let config = client_config(&self.security)?;
        match is_secure && config.tls.is_none() {
            true => Err(wrong("it takes certificates of the service (--tls-cert)")),
            false => Ok(()),
        }
    }
}

impl Exporter {
    /// Sends to a collector. Needs the context of a Tokio runtime.
    ///
    /// # Errors
    /// A text that says what is wrong with the target.
    pub fn new(config: &OtlpConfig) -> Result<Exporter, String> {
        config.check()?;
        // The service's own calls go through no service.
        let builder = Channel::builder(&config.target).service(ServiceChoice::Direct);
        let channel = builder.grpc(client_config(&config.security)?).connect_lazily();
        let channel = channel.map_err(|error| format!("--otlp {}: {error}", config.target))?;
        Ok(Exporter {
            client: TraceServiceClient::new(channel),
            every: config.every,
            clock: SystemClock::default(),
            sent: HashSet::new(),
            before: Vec::new(),
            is_failing: false,
            is_rejecting: false,
        })
    }

    /// How often to export.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Sends what was recorded since the last time.
    pub async fn export(&mut self, recorders: Recorders) {
        let Recorders { policies, host } = recorders;
        let before = std::mem::replace(&mut self.before, policies.clone());
        let reports = policies.iter().chain(&before).filter_map(|policy| {
            // What a plug-in of this name reports may be anything.
            serde_json::from_value::<Report>(policy.report()).ok()
        });
        let mut kept = HashSet::new();
        let mut fresh = Vec::new();
        for span in reports.flat_map(|report| report.spans) {
            let is_sent = self.sent.contains(&span.context);
            // A policy and what stands where its engine was taken out report the same.
            if kept.insert(span.context.clone()) && !is_sent {
                fresh.push(span);
            }
        }
        self.sent.retain(|context| kept.contains(context));
        if fresh.is_empty() {
            return;
        }
        let names = host.policy_names();
        for spans in fresh.chunks(SPANS_AT_A_TIME) {
            let request = request(spans, &names, self.began_unix_ns());
            match self.send(request).await {
                Ok(()) => {
                    self.is_failing = false;
                    self.sent.extend(spans.iter().map(|span| span.context.clone()));
                }
                Err(status) => {
                    if !self.is_failing {
                        eprintln!("petasosd: spans are not sent: {}", shown(&status.to_string()));
                    }
                    self.is_failing = true;
                    if may_be_taken_later(status.code()) {
                        return;
                    }
                    // OTLP: what is refused for good is not sent again.
                    self.sent.extend(spans.iter().map(|span| span.context.clone()));
                }
            }
        }
    }

    async fn send(&mut self, request: Msg<ExportTraceServiceRequest>) -> Result<(), Status> {
        let answer = self.client.export(Request::new(request).with_timeout(EXPORT_MAX)).await?;
        let partial = answer.partial_success().filter(|partial| partial.rejected_spans() > 0);
        if let Some(partial) = &partial
            && !self.is_rejecting
        {
            let (count, why) = (partial.rejected_spans(), shown(partial.error_message()));
            eprintln!("petasosd: the collector has not kept {count} spans: {why}");
        }
        self.is_rejecting = partial.is_some();
        Ok(())
    }

    /// The time of the clock's zero, in ns since 1970.
    fn began_unix_ns(&self) -> u64 {
        let now_ns = u64::try_from(unix_time().as_nanos()).unwrap_or(u64::MAX);
        now_ns.saturating_sub(self.clock.now().as_nanos())
    }
}

/// What a collector says, as one line of a log.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect()
}

/// Whether the same spans may be taken later (OTLP 1.5, failures of OTLP/gRPC).
fn may_be_taken_later(code: Code) -> bool {
    use Code::{
        Aborted, Cancelled, DataLoss, DeadlineExceeded, OutOfRange, ResourceExhausted, Unavailable,
    };
    [Aborted, Cancelled, DataLoss, DeadlineExceeded, OutOfRange, ResourceExhausted, Unavailable]
        .contains(&code)
}

/// Whether a call that ends so is a failure of its server (OpenTelemetry's conventions for gRPC).
fn is_servers_fault(code: &str) -> bool {
    ["UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"]
        .contains(&code)
}

/// A request with these spans, by application.
fn request(
    spans: &[Recorded],
    names: &PolicyNames,
    began_unix_ns: u64,
) -> Msg<ExportTraceServiceRequest> {
    let mut by_application = BTreeMap::<u32, Vec<&Recorded>>::new();
    for span in spans {
        by_application.entry(span.application).or_default().push(span);
    }
    let mut request = ExportTraceServiceRequest::new();
    let mut edit = request.edit();
    let mut resources = edit.resource_spans_mut();
    for (application, spans) in by_application {
        let mut one = resources.add();
        let number = application.to_string();
        let name = names.application(application).unwrap_or(&number);
        let mut resource = one.resource_mut();
        set(&mut resource.attributes_mut().add(), "service.name", name);
        let mut scopes = one.scope_spans_mut();
        let mut scope = scopes.add();
        scope.scope_mut().set_name("petasosd").set_version(env!("CARGO_PKG_VERSION"));
        let mut list = scope.spans_mut();
        for span in spans {
            fill(span, names, began_unix_ns, &mut list.add());
        }
    }
    request
}

fn fill(span: &Recorded, names: &PolicyNames, began_unix_ns: u64, to: &mut api::SpanMut<'_>) {
    if let Some(context) = TraceContext::from_traceparent(&span.context) {
        to.set_trace_id(&context.trace_id[..]).set_span_id(&context.span_id[..]);
        to.set_flags(context.flags.into());
    }
    let parent = span.parent.as_deref().and_then(TraceContext::from_traceparent);
    if let Some(parent) = parent {
        to.set_parent_span_id(&parent.span_id[..]);
    }
    let method = match &span.method {
        serde_json::Value::String(name) => name.clone(),
        number => number.to_string(),
    };
    let kind = if span.is_served { SpanKind::SERVER } else { SpanKind::CLIENT };
    to.set_name(&*method)
        .set_kind(kind)
        .set_start_time_unix_nano(began_unix_ns.saturating_add(span.began_ns))
        .set_end_time_unix_nano(began_unix_ns.saturating_add(span.ended_ns));
    if span.code != "OK" && (!span.is_served || is_servers_fault(&span.code)) {
        to.status_mut().set_code(StatusCode::ERROR).set_message(&*span.code);
    }
    let number = span.peer.to_string();
    let (service, name) = method.rsplit_once('/').unwrap_or(("", &method));
    let mut attributes = to.attributes_mut();
    for (key, value) in [
        ("rpc.system", "petasos"),
        ("rpc.service", service),
        ("rpc.method", name),
        ("rpc.response.status_code", &span.code),
        ("petasos.peer", names.peer(span.peer).unwrap_or(&number)),
    ] {
        set(&mut attributes.add(), key, value);
    }
}

fn set(attribute: &mut KeyValueMut<'_>, key: &str, value: &str) {
    attribute.set_key(key).value_mut().set_string_value(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_checked() {
        let check = |target: &str| {
            let (target, every) = (target.to_owned(), Duration::from_secs(1));
            OtlpConfig { target, every, security: Security::Loopback }.check()
        };
        assert_eq!(check("grpc://127.0.0.1:4317"), Ok(()));
        for (wrong, said) in [
            ("http://h:1", "it is neither grpc://HOST:PORT nor grpcs://HOST:PORT"),
            ("h:1", "it is neither grpc://HOST:PORT nor grpcs://HOST:PORT"),
            ("grpc://h", "it is not grpc://HOST:PORT"),
            ("grpcs://h:1", "it takes certificates of the service"),
        ] {
            assert!(check(wrong).is_err_and(|why| why.contains(said)), "{wrong}");
        }
    }

    #[test]
    fn what_collectors_say_is_one_short_line() {
        let said = shown(&format!("a\n\u{1b}[31mred{}", "x".repeat(1 << 20)));
        assert!(said.starts_with("a\\n\\u{1b}[31mred") && said.len() < 300, "{said}");
    }

    #[test]
    fn spans_become_those_of_the_protocol() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let span = |application: u32, code: &str| Recorded {
            context: "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01".to_owned(),
            parent: Some(parent.to_owned()),
            application,
            method: "shop.Cart/Add".into(),
            peer: 9,
            is_served: application == 2,
            began_ns: 5,
            ended_ns: 8,
            code: code.to_owned(),
        };
        let spans = [span(1, "OK"), span(2, "INTERNAL"), span(1, "OK"), span(2, "NOT_FOUND")];
        let request = request(&spans, &PolicyNames::default(), 1000);
        let all = request.resource_spans();
        assert_eq!(all.len(), 2);
        let first = all[0].scope_spans()[0].spans();
        let second = all[1].scope_spans()[0].spans();
        assert_eq!((first.len(), second.len()), (2, 2));
        let (one, failed) = (&first[0], &second[0]);
        // It is the caller's to say whether that is a failure.
        assert!(second[1].status().is_none());
        assert_eq!((one.trace_id().len(), one.span_id().len()), (16, 8));
        assert_eq!(one.parent_span_id(), [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
        assert_eq!((one.start_time_unix_nano(), one.end_time_unix_nano()), (1005, 1008));
        assert_eq!((one.name(), one.kind()), ("shop.Cart/Add", SpanKind::CLIENT));
        assert!(one.status().is_none());
        assert_eq!(failed.kind(), SpanKind::SERVER);
        assert_eq!(failed.status().map(|status| status.code()), Some(StatusCode::ERROR));
        let texts: Vec<_> = one.attributes().iter().map(|one| one.key().to_owned()).collect();
        assert!(texts.iter().any(|key| key == "rpc.method"), "{texts:?}");
    }
}
