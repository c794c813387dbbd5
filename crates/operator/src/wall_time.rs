//! The time of the day, for what people and other programs read. Nothing else goes by it: it jumps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since 1970; none before.
#[expect(clippy::disallowed_methods, reason = "logs and spans have the time of the day")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
