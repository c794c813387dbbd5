//! Keys, by which policies tell calls apart.

use std::fmt;

use petasos_engine::Call;
use serde::{Deserialize, Serialize};

/// By what a policy tells calls apart: those of a key share a limit, a breaker, a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// All share one.
    #[default]
    All,
    /// Each application has its own.
    Application,
    /// Each method has its own.
    Method,
    /// Each peer has its own.
    Peer,
    /// Each method of each peer has its own.
    MethodAndPeer,
    /// Each application has its own for each method of each peer.
    Everything,
}

impl By {
    /// The key of a call.
    #[inline]
    pub(crate) fn key(self, call: &Call) -> Key {
        let (application, method, peer) =
            (Some(call.application.0), Some(call.method.0), Some(call.peer.0));
        match self {
            By::All => Key::default(),
            By::Application => Key { application, ..Key::default() },
            By::Method => Key { method, ..Key::default() },
            By::Peer => Key { peer, ..Key::default() },
            By::MethodAndPeer => Key { method, peer, ..Key::default() },
            By::Everything => Key { application, method, peer },
        }
    }
}

/// The numbers that calls of one key have in common.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub(crate) struct Key {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<u32>,
}

impl Key {
    /// Spreads keys over the lines of a cache. It is no defence: the cache only saves time.
    #[inline]
    pub(crate) fn spread(&self) -> usize {
        let part = |number: Option<u32>| u64::from(number.unwrap_or(0));
        let mixed = (part(self.peer) | part(self.method) << 32)
            .wrapping_add(part(self.application) << 17)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize
    }
}

/// Without the parts that do not count: `application 1, peer 3`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts =
            [("application", self.application), ("method", self.method), ("peer", self.peer)];
        let mut separator = "";
        for (name, number) in parts {
            if let Some(number) = number {
                write!(f, "{separator}{name} {number}")?;
                separator = ", ";
            }
        }
        if separator.is_empty() { f.write_str("all") } else { Ok(()) }
    }
}
