//! Configuration of connections, and the limits that the protocol fixes.

use core::time::Duration;

use crate::frame::FRAME_HEADER_BYTES;
use crate::group::JOINED_BODY_BYTES_MAX;
use crate::message::{CONNECT_REPLY_BODY_BYTES_MAX, ERROR_BODY_BYTES_MAX};
use crate::text::DETAIL_BYTES_MAX;

/// The most requests (connects and disconnects, and those of groups) of one process that the other
/// has not answered (C8).
pub const OUTSTANDING_MAX: usize = 1024;

/// The most bytes of answers and notices that a process may have to send to a peer that keeps
/// within [`OUTSTANDING_MAX`] (C15).
pub const OWED_BYTES_MAX: usize = 128 * 1024;

/// An answer to a connect, and the return of a late grant.
const CONNECT_BYTES_MAX: usize =
    FRAME_HEADER_BYTES + CONNECT_REPLY_BODY_BYTES_MAX + FRAME_HEADER_BYTES + 11;
/// The longest answer of a router, without the text of a refusal.
const GROUP_BYTES_MAX: usize = FRAME_HEADER_BYTES + JOINED_BODY_BYTES_MAX;
/// That text is left out unless less than `output_bytes_max` is unsent, so it goes beyond once.
const SINGLE_FRAMES_BYTES_MAX: usize = 1024 + DETAIL_BYTES_MAX;
const _: () = assert!(
    OUTSTANDING_MAX * CONNECT_BYTES_MAX + SINGLE_FRAMES_BYTES_MAX <= OWED_BYTES_MAX
        && OUTSTANDING_MAX * GROUP_BYTES_MAX + SINGLE_FRAMES_BYTES_MAX <= OWED_BYTES_MAX,
    "every answer owed to a well-behaved peer, and every late grant's return, has room"
);
const _: () = assert!(
    FRAME_HEADER_BYTES + ERROR_BODY_BYTES_MAX + 256 + DETAIL_BYTES_MAX <= SINGLE_FRAMES_BYTES_MAX,
    "so have a hello, a ping, a pong, a drain, and the last word: an error or a bye"
);

/// A process's settings for its connections. Peers may have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// After this much silence, the peer is asked for a sign of life.
    pub heartbeat_interval: Duration,
    /// After this much silence, the peer has failed. Longer than `heartbeat_interval`.
    pub failure_timeout: Duration,
    /// How long a live peer may leave a connect unanswered.
    pub connect_timeout: Duration,
    /// With more unsent bytes than this, new requests are refused.
    pub output_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            heartbeat_interval: Duration::from_millis(100),
            failure_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            output_bytes_max: 64 * 1024,
        }
    }
}

impl Config {
    /// Checks the relations between the fields.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.heartbeat_interval.is_zero() {
            return Err(ConfigError::NoHeartbeatInterval);
        }
        if self.failure_timeout <= self.heartbeat_interval {
            return Err(ConfigError::FailureTimeoutTooShort);
        }
        if self.connect_timeout.is_zero() {
            return Err(ConfigError::NoConnectTimeout);
        }
        Ok(())
    }
}

/// Why a [`Config`] is unusable. Its author is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// `heartbeat_interval` is 0.
    #[error("the heartbeat interval is 0")]
    NoHeartbeatInterval,
    /// `failure_timeout` does not exceed `heartbeat_interval`.
    #[error("the failure timeout does not exceed the heartbeat interval")]
    FailureTimeoutTooShort,
    /// `connect_timeout` is 0.
    #[error("the connect timeout is 0")]
    NoConnectTimeout,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_each_mistake_is_named() {
        let good = Config::default();
        assert_eq!(good.validate(), Ok(()));
        let zero = Duration::ZERO;
        let interval = Config { heartbeat_interval: zero, ..good };
        assert_eq!(interval.validate(), Err(ConfigError::NoHeartbeatInterval));
        let failure = Config { failure_timeout: good.heartbeat_interval, ..good };
        assert_eq!(failure.validate(), Err(ConfigError::FailureTimeoutTooShort));
        let connect = Config { connect_timeout: zero, ..good };
        assert_eq!(connect.validate(), Err(ConfigError::NoConnectTimeout));
    }
}
