//! The recovery time of the rate after contention.

use std::time::Duration;

use petasos_base::{Clock, Time};

use super::ContentionArgs;
use super::competitors::Competitors;
use crate::error::BenchError;
use crate::peer::Pair;
use crate::timeline::Timeline;

/// The length of the preceding turn without contention, for comparison.
const BEFORE: Duration = Duration::from_millis(300);
/// The longest recovery time.
pub const AFTER: Duration = Duration::from_secs(1);
/// The rate has recovered at this share of the earlier rate.
pub const SHARE: f64 = 0.8;

/// One trial.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Calls per millisecond before the contention.
    pub before_per_ms: f64,
    /// Calls per millisecond under contention.
    pub under_per_ms: f64,
    /// Milliseconds from the end of contention until the rate had recovered; `None` if [`AFTER`]
    /// was too short.
    pub after_ms: Option<usize>,
}

/// Measures a turn without contention, then one in which contention ends.
pub fn trial(how: &ContentionArgs, pair: &mut Pair) -> Result<Recovery, BenchError> {
    let before = timed(pair, BEFORE, || {})?;
    let before_per_ms = before.typical_per_ms().ok_or("a turn was too short to form a rate")?;
    let (turn, clock) = (how.turn(), Clock::system());
    let mut competitors = Competitors::start(how.competitors, turn + AFTER)?;
    let (start, mut ended_at) = (clock.now(), None);
    // The client's own loop ends the contention: the time is exact, and no other thread interferes.
    let across = timed(pair, turn + AFTER, || {
        if ended_at.is_none() && clock.now() - start >= turn {
            ended_at = Some(clock.now());
            competitors.end();
        }
    })?;
    let ended_at: Time = ended_at.ok_or("the turn ended before the contention")?;
    competitors.wait()?;
    Ok(Recovery {
        before_per_ms,
        under_per_ms: across.mean_per_ms_before(ended_at).unwrap_or(0.0),
        after_ms: across.reaches_after_ms(ended_at, SHARE * before_per_ms),
    })
}

/// A turn of Petasos, counted by the millisecond.
fn timed(
    pair: &mut Pair,
    duration: Duration,
    beside: impl FnMut(),
) -> Result<Timeline, BenchError> {
    let start = pair.client.clock().now();
    pair.client.state_mut().timeline = Some(Timeline::new(start, duration));
    let turn = pair.petasos_beside(duration, beside);
    let timeline = pair.client.state_mut().timeline.take();
    turn?;
    Ok(timeline.expect("the turn leaves the timeline where it was put"))
}
