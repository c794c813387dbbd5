//! The workload generator. A call's number determines everything about the call, at both ends.

use core::time::Duration;

use petasos_base::Rng;

use super::message::NUMBER_BYTES;

/// A mix of calls.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Calls that each host starts by itself; nested ones are additional.
    pub calls_per_host: u64,
    /// Calls that a host has open at once.
    pub window: usize,
    /// Mean pause between two starts on a host.
    pub think_nanos: u64,
    /// Longest request and response. Sizes have a heavy tail up to here.
    pub message_bytes_max: u32,
    /// Bytes of a full packet's payload. Sizes around multiples of this are likely.
    pub payload_bytes: u32,
    /// Probability of an answer that comes later than the handler.
    pub deferred: f64,
    /// Probability of no answer at all; such calls have a timeout.
    pub silent: f64,
    /// Probability of a call to a third host before the answer.
    pub nested: f64,
    /// Probability of a call that must fail: unknown method, rejected request, response over the
    /// limit.
    pub wrong: f64,
    /// Probability of a timeout.
    pub timeouts: f64,
    /// Whether every call has a timeout, whatever the probability.
    pub always_timeouts: bool,
    /// Probability that the client cancels.
    pub cancels: f64,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            calls_per_host: 300,
            window: 16,
            think_nanos: 50_000,
            message_bytes_max: 1 << 18,
            payload_bytes: 1448,
            deferred: 0.1,
            silent: 0.01,
            nested: 0.1,
            wrong: 0.03,
            timeouts: 0.1,
            always_timeouts: false,
            cancels: 0.05,
        }
    }
}

/// What a handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Answers at once.
    Echo,
    /// Answers after [`Plan::delay_nanos`].
    Deferred,
    /// Never answers.
    Silent,
    /// Calls another host, and answers when that call has ended.
    Nested,
    /// Rejects the request.
    Declined,
    /// Does not exist.
    Unknown,
    /// Answers with more than the client accepts.
    Overlong,
}

/// Everything about one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What its handler does.
    pub method: Method,
    /// Length of the request.
    pub request_bytes: usize,
    /// Length of the response.
    pub response_bytes: usize,
    /// How long the handler takes, if it defers its answer.
    pub delay_nanos: u64,
    /// When the call is given up.
    pub timeout: Option<Duration>,
    /// How long after its start the client cancels the call.
    pub cancel_after_nanos: Option<u64>,
}

/// Longest timeout of a call: beyond the reach of the endpoint's timing wheel.
pub(super) const TIMEOUT_NANOS_MAX: u64 = 1 << 30;

/// The bit of a call's number that marks nested calls.
pub(super) const NESTED_BIT: u64 = 1 << 40;

impl Workload {
    /// The plan of call `number`. Every number has one, even a damaged one.
    pub fn plan(&self, number: u64) -> Plan {
        let mut rng = Rng::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let method = self.method(&mut rng, number & NESTED_BIT != 0);
        let request_bytes = match method {
            // Its number must be readable from the request, since its method is not its own.
            Method::Unknown => NUMBER_BYTES + self.size(&mut rng),
            _ => self.size(&mut rng),
        };
        let response_bytes = self.size(&mut rng) + usize::from(method == Method::Overlong);
        let timed = rng.chance(self.timeouts);
        let must = self.always_timeouts || method == Method::Silent;
        let timeout_nanos = (1_000_000 << rng.below(10)) + rng.below(1_000_000);
        let cancelled = rng.chance(self.cancels);
        let cancel_nanos = up_to_power(&mut rng, 8, 25);
        Plan {
            method,
            request_bytes: request_bytes.min(self.message_bytes_max as usize),
            response_bytes,
            delay_nanos: up_to_power(&mut rng, 10, 25),
            timeout: (timed || must).then_some(Duration::from_nanos(timeout_nanos)),
            cancel_after_nanos: cancelled.then_some(cancel_nanos),
        }
    }

    fn method(&self, rng: &mut Rng, nested: bool) -> Method {
        let choice = rng.below(1 << 53) as f64 / (1u64 << 53) as f64;
        let mut bound = 0.0;
        let mut below = |probability: f64| {
            bound += probability;
            choice < bound
        };
        if below(self.deferred) {
            Method::Deferred
        } else if below(self.silent) {
            Method::Silent
        } else if below(self.wrong) {
            [Method::Declined, Method::Unknown, Method::Overlong][rng.below(3) as usize]
        } else if below(self.nested) && !nested {
            Method::Nested
        } else {
            Method::Echo
        }
    }

    /// Empty, tiny, small, about one or a few packets, or from the heavy tail.
    fn size(&self, rng: &mut Rng) -> usize {
        let max = u64::from(self.message_bytes_max.max(1));
        let payload = u64::from(self.payload_bytes);
        let size = match rng.below(10) {
            0 => rng.below(3),
            1..=4 => rng.below(256),
            5 => payload - 2 + rng.below(5),
            6 => payload * (1 + rng.below(8)) - 1 + rng.below(3),
            _ => up_to_power(rng, 8, u64::from(max.ilog2()).max(8) + 1),
        };
        size.min(max) as usize
    }
}

/// A number below a power of two; each power from 2^`least` to 2^`end` is equally likely, for a
/// heavy tail.
fn up_to_power(rng: &mut Rng, least: u64, end: u64) -> u64 {
    let power = least + rng.below(end - least);
    rng.below(1 << power)
}

impl Plan {
    /// The longest response that the client accepts, if not the session's limit.
    pub(super) fn response_bytes_max(&self) -> Option<u32> {
        let overlong = self.method == Method::Overlong;
        overlong.then(|| self.response_bytes.saturating_sub(1) as u32)
    }
}

const _: () = assert!(TIMEOUT_NANOS_MAX > (1_000_000 << 9) + 1_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_call_and_size_occurs() {
        let workload = Workload::default();
        let plans: Vec<Plan> = (0..20_000).map(|number| workload.plan(number)).collect();
        let any = |test: &dyn Fn(&Plan) -> bool| assert!(plans.iter().any(test));
        for method in [
            Method::Echo,
            Method::Deferred,
            Method::Silent,
            Method::Nested,
            Method::Declined,
            Method::Unknown,
            Method::Overlong,
        ] {
            any(&|plan| plan.method == method);
        }
        for bytes in [0, 1, 1447, 1448, 1449, 2896] {
            any(&|plan| plan.request_bytes == bytes);
            any(&|plan| plan.response_bytes == bytes);
        }
        any(&|plan| plan.request_bytes > 1 << 17);
        any(&|plan| plan.timeout > Some(Duration::from_millis(300)));
        assert!(plans.iter().all(|plan| plan.request_bytes <= 1 << 18));
        assert!(plans.iter().all(|p| p.method != Method::Silent || p.timeout.is_some()));
    }

    #[test]
    fn nested_calls_are_not_nested_again() {
        let workload = Workload { nested: 0.8, ..Workload::default() };
        let nested = (0..1000).filter(|n| workload.plan(*n).method == Method::Nested).count();
        assert!(nested > 700);
        assert!((0..1000).all(|n| workload.plan(n | NESTED_BIT).method != Method::Nested));
    }
}
