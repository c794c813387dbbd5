//! The workload. A call's number determines everything about the call, at both ends.

use core::time::Duration;

use petasos_base::Rng;

/// Which method is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Once,
    Named,
    Repeated,
    Hedged,
    Produce,
    Collect,
    Chat,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Once,
        Kind::Named,
        Kind::Repeated,
        Kind::Hedged,
        Kind::Produce,
        Kind::Collect,
        Kind::Chat,
    ];

    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Kind::Produce | Kind::Collect | Kind::Chat)
    }

    /// Whether the method may run more than once, as its schema says.
    pub(crate) fn is_idempotent(self) -> bool {
        matches!(self, Kind::Repeated | Kind::Hedged)
    }

    /// The most runs of handlers for one call, whatever happens. `retried`: streams have a retry
    /// policy. `routed`: they go by way of routers, so first packets are repeated (RT13).
    pub(crate) fn runs_max(self, retried: bool, routed: bool) -> usize {
        match self {
            kind if kind.is_idempotent() && routed => ROUTED_RUNS_MAX,
            Kind::Named | Kind::Repeated => ATTEMPTS_MAX,
            kind if kind.is_stream() && retried => ATTEMPTS_MAX,
            Kind::Hedged => HEDGES_MAX,
            _ => 1,
        }
    }
}

/// The most attempts of calls with a retry policy.
pub(crate) const ATTEMPTS_MAX: usize = 4;
/// More than first packets and attempts of a call that may run again by way of routers.
pub(crate) const ROUTED_RUNS_MAX: usize = 100;
/// The most attempts of hedged calls.
pub(crate) const HEDGES_MAX: usize = 3;

/// The policies of the methods, which [`Kind::runs_max`] relies on. Streams have one if they are
/// `retried`: it names the code that handlers fail with, and no failure below them.
pub(crate) fn service_config(retried: bool) -> String {
    let retry = |methods: &[&str], codes: &str| {
        let name = |method| format!(r#"{{"service": "sim.Work", "method": "{method}"}}"#);
        let names: Vec<String> = methods.iter().map(name).collect();
        format!(
            r#"{{"name": [{}],
                "retryPolicy": {{"maxAttempts": 4, "initialBackoff": "0.001s",
                "maxBackoff": "0.01s", "backoffMultiplier": 2,
                "retryableStatusCodes": [{codes}]}}}}"#,
            names.join(",")
        )
    };
    let hedged = r#"{"name": [{"service": "sim.Work", "method": "Hedged"}],
         "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.002s",
            "nonFatalStatusCodes": ["ABORTED"]}}"#;
    let (aborted, both) = (r#""ABORTED""#, r#""ABORTED", "UNAVAILABLE""#);
    let mut methods = vec![retry(&["Named"], aborted), retry(&["Repeated"], both)];
    if retried {
        methods.push(retry(&["Produce", "Collect", "Chat"], aborted));
    }
    methods.push(hedged.to_owned());
    format!(r#"{{"methodConfig": [{}]}}"#, methods.join(","))
}

/// What happens in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) request_bytes: usize,
    pub(crate) response_bytes: usize,
    /// Messages of the request stream.
    pub(crate) up: u32,
    /// Messages of the response stream, unless the handler echoes.
    pub(crate) down: u32,
    pub(crate) piece_bytes: usize,
    /// How long the handler waits before it answers, or between messages.
    pub(crate) handler_nanos: u64,
    /// How long the client waits between messages.
    pub(crate) client_nanos: u64,
    /// Runs that fail with `ABORTED` before one succeeds.
    pub(crate) fails: usize,
    /// The number of messages of the request stream after which the handler ends.
    pub(crate) stops_after: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel_after: Option<Duration>,
}

/// A number up to `max`; small ones are far more likely.
fn skewed(rng: &mut Rng, max: u64) -> u64 {
    let bits = rng.below(u64::from(max.ilog2()) + 1);
    rng.below(1 << bits)
}

impl Plan {
    /// The plan of the call with this number.
    pub(crate) fn of(call: u64) -> Plan {
        let rng = &mut Rng::new(call ^ 0x9a11_5eed);
        let kind = Kind::ALL[rng.below(Kind::ALL.len() as u64) as usize];
        let micros = |rng: &mut Rng, max| Duration::from_micros(100 + skewed(rng, max));
        Plan {
            kind,
            request_bytes: skewed(rng, 1 << 16) as usize,
            response_bytes: skewed(rng, 1 << 16) as usize,
            up: skewed(rng, 64) as u32,
            down: skewed(rng, 64) as u32,
            piece_bytes: skewed(rng, 1 << 15) as usize,
            handler_nanos: if rng.chance(0.5) { 0 } else { skewed(rng, 5_000_000) },
            client_nanos: if rng.chance(0.7) { 0 } else { skewed(rng, 1_000_000) },
            fails: if rng.chance(0.7) { 0 } else { 1 + rng.below(5) as usize },
            stops_after: rng.chance(0.1).then(|| skewed(rng, 32) as u32),
            timeout: rng.chance(0.3).then(|| micros(rng, 100_000)),
            cancel_after: rng.chance(0.1).then(|| micros(rng, 20_000)),
        }
    }
}

petasos_base::counters! {
    /// The outcomes of a run's calls.
    pub struct Tally {
        /// Calls begun.
        begun,
        /// Calls that ended with success.
        answered,
        /// Calls that the application failed.
        aborted,
        /// Calls whose deadline passed.
        late,
        /// Calls that clients cancelled.
        cancelled,
        /// Calls that found no server, or lost it.
        unavailable,
        /// Calls that failed otherwise.
        otherwise,
        /// Handlers' runs.
        runs,
        /// Runs of streams after the first one of their call.
        streams_again,
        /// Messages of streams that were received.
        pieces,
    }
}
