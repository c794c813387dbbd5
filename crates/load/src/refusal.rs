//! Why results of a run are not reported.

use core::time::Duration;

use petasos_report::duration_us;

/// Why there is nothing to report, and what to do. The first five end the run; the others are
/// known when it is over.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// All slots were taken when a request was due.
    #[error(
        "{0} requests were outstanding when the next was due, at a load of {1}/s: the target takes \
         fewer than that, or the limit is too low"
    )]
    Outstanding(usize, u64),
    /// The generator was too late to ever catch up.
    #[error(
        "the generator was {} behind its schedule: it cannot send that many requests on this \
         machine", shown(.0)
    )]
    Behind(Duration),
    /// Requests were not answered after the last one was sent.
    #[error("{count} requests had no answer {} after the last was sent", shown(timeout))]
    Unanswered {
        /// How many.
        count: usize,
        /// How long answers were waited for.
        timeout: Duration,
    },
    /// Too many requests failed.
    #[error("{failed} of {sent} requests failed, the first one with: {reason}")]
    Failing {
        /// How many have failed.
        failed: u64,
        /// How many were sent by then.
        sent: u64,
        /// That of the first.
        reason: String,
    },
    /// The schedule has no request.
    #[error("no request was due")]
    Nothing,
    /// Requests were sent too late, so latencies from the schedule would be the generator's own.
    #[error(
        "the generator sent one in a hundred requests {} late or more, where {} is the most",
        shown(p99),
        shown(bound)
    )]
    Late {
        /// The 99th percentile.
        p99: Duration,
        /// The most.
        bound: Duration,
    },
    /// The rate was not the one that was asked for.
    #[error("requests were sent at a rate that is wrong by {:.1} %", .0 * 100.0)]
    Rate(f64),
    /// Gaps were not exponential.
    #[error("the gaps between requests as they were sent are not exponential (p = {0:.1e})")]
    NotExponential(f64),
    /// Gaps were not independent.
    #[error("the gaps between requests as they were sent are not independent (p = {0:.1e})")]
    NotIndependent(f64),
}

impl Refusal {
    /// Whether it is the target that cannot take the load, and not the generator.
    pub fn is_of_target(&self) -> bool {
        use Refusal::{Failing, Outstanding, Unanswered};
        matches!(self, Outstanding(..) | Unanswered { .. } | Failing { .. })
    }
}

fn shown(time: &Duration) -> String {
    duration_us(time.as_secs_f64() * 1e6)
}
