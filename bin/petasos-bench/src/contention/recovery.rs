//! How soon the rate is back when contention ends.

use std::time::Duration;

use petasos_base::{Clock, Time};

use super::ContentionArgs;
use super::competitors::Competitors;
use crate::error::BenchError;
use crate::peer::Pair;
use crate::timeline::Timeline;

/// A turn without contention right before, to compare with.
const BEFORE: Duration = Duration::from_millis(300);
/// How long the rate may take to be back.
pub const AFTER: Duration = Duration::from_secs(1);
/// The share of the rate before at which it counts as back.
pub const SHARE: f64 = 0.8;

/// One end of contention.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Calls per millisecond before the contention.
    pub before_per_ms: f64,
    /// Calls per millisecond under it.
    pub under_per_ms: f64,
    /// Milliseconds from the end of contention until the rate was back; `None` if [`AFTER`] was
    /// not enough.
    pub after_ms: Option<usize>,
}

/// Measures without contention, then once across its end.
pub fn trial(how: &ContentionArgs, pair: &mut Pair) -> Result<Recovery, BenchError> {
    let before = timed(pair, BEFORE, || {})?;
    let before_per_ms = before.typical_per_ms().ok_or("a turn was too short to form a rate")?;
    let (turn, clock) = (how.turn(), Clock::system());
    let mut competitors = Competitors::start(how.competitors, turn + AFTER)?;
    let (start, mut ended_at) = (clock.now(), None);
    // The client's own loop ends it: the time is exact, and no other thread disturbs.
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

/// A turn of Petasos by the millisecond.
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
