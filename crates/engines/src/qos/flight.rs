//! Counts how much of an application's requests is under way: behind the engine, and not answered.
//!
//! Requests under way wait in rings, sockets and the other host, where no policy orders them. The
//! fewer bytes are under way, the sooner a small message arrives. With too few, the path is not
//! full.

use petasos_engine::{CallId, Decompose, Item, ItemKind, Work};

use crate::calls::Calls;

/// The requests of one application.
#[derive(Default)]
pub(super) struct Flight {
    /// By call: the bytes of its request.
    calls: Calls<u32>,
    bytes: u64,
}

impl Flight {
    /// Calls that were under way before an upgrade.
    pub(super) fn restore(open: &[(u64, u32)]) -> Flight {
        let mut flight = Flight::default();
        for (call, bytes) in open {
            flight.begin(CallId::from_number(*call), *bytes);
        }
        flight
    }

    /// The bytes of requests that are under way.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A request passes.
    pub(super) fn begin(&mut self, call: CallId, bytes: u32) {
        // Beyond what can be followed, nothing waits.
        let Ok(before) = self.calls.insert(call, bytes) else { return };
        self.bytes = self.bytes + u64::from(bytes) - u64::from(before.unwrap_or(0));
    }

    /// An item has come, which may be the end of a call.
    #[inline]
    pub(super) fn note(&mut self, work: &Work<'_>, item: &Item) {
        let is_end = matches!(work.kind(item), ItemKind::End | ItemKind::Cancel);
        if is_end && !self.calls.is_empty() {
            let bytes = self.calls.remove(work.call_id(item)).unwrap_or(0);
            self.bytes -= u64::from(bytes);
        }
    }

    /// Those that are still under way.
    pub(super) fn into_open(self, decompose: &Decompose<'_>) -> Vec<(u64, u32)> {
        let open = self.calls.into_open(decompose);
        open.map(|(call, bytes)| (call.to_number(), bytes)).collect()
    }
}
