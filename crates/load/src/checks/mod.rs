//! Whether requests were sent as a Poisson process would have sent them, or at least at the rate.
//!
//! All checks are of the times at which requests were *sent*. At most 10,000 gaps between
//! them are tested, in stretches of 1000 in a row that are spread over the run: a difference too
//! small to be seen in so many is too small to matter to a queue, while all of millions of gaps
//! would show the nanoseconds that sending takes.

mod exponential;
mod independence;

pub use exponential::p_exponential;
pub use independence::p_independent;

/// The largest error of the rate, as a part of it.
pub const RATE_ERROR_MAX: f64 = 0.01;
/// Arrivals are refused at a smaller p-value: one good run in a thousand for each of the two tests.
pub const P_MIN: f64 = 0.001;
/// Fewer gaps tell nothing, and are not tested.
pub const GAPS_MIN: usize = 100;
/// In one thread, two requests cannot be sent at the same time, so short gaps become as long as
/// sending takes. Where gaps are at most this part of the mean gap, only their number is tested.
pub const RESOLUTION: f64 = 0.25;

/// What the sent times were like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checks {
    /// The rate at which requests were sent, over the scheduled rate, less 1.
    pub rate_error: f64,
    /// The p-value of the hypothesis that gaps are exponential ([`p_exponential`]); `None` if they
    /// should not be, or are too few.
    pub p_exponential: Option<f64>,
    /// The p-value of the hypothesis that gaps are independent ([`p_independent`]); `None` as
    /// above.
    pub p_independent: Option<f64>,
}

impl Checks {
    /// Checks the times of requests of a Poisson process.
    ///
    /// `stretches` has gaps in a row, in nanoseconds; `rate_error` is as in [`rate_error`].
    pub fn of_poisson(rate_error: f64, stretches: &[Vec<u64>]) -> Checks {
        let p_exponential = p_exponential(&stretches.concat(), RESOLUTION);
        Checks { rate_error, p_exponential, p_independent: p_independent(stretches) }
    }

    /// For requests that are not sent at random: only the rate is checked.
    pub fn of_rate(rate_error: f64) -> Checks {
        Checks { rate_error, p_exponential: None, p_independent: None }
    }
}

/// The relative error of a rate: `count` times from `first_ns` to `last_ns`, where there should be
/// so many from `due_first_ns` to `due_last_ns`. 0 if there are too few to have a rate.
pub fn rate_error(
    count: u64,
    (first_ns, last_ns): (u64, u64),
    (due_first_ns, due_last_ns): (u64, u64),
) -> f64 {
    let due = due_last_ns.saturating_sub(due_first_ns);
    let sent = last_ns.saturating_sub(first_ns);
    if count < 2 || due == 0 {
        return 0.0;
    }
    due as f64 / sent.max(1) as f64 - 1.0
}

#[cfg(test)]
mod tests;
