//! Counts what waits in calls that only pass a hub, between the transport and another hub.
//!
//! It counts as the application's that has the call's end on this host. Beyond a limit, what comes
//! for its calls waits where it is, and counts there.

use std::collections::HashMap;

use crate::remote_calls::RemoteCall;

/// What waits in calls that pass a hub.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// Bytes, by the number of the application.
    bytes: HashMap<u32, usize>,
    /// Calls of an application of which the carriers have messages for which there is no room.
    refused: HashMap<u32, Vec<RemoteCall>>,
}

impl Passing {
    /// As much of an application waits, before no more is taken from a carrier.
    const BYTES_MAX: usize = 32 << 20;

    /// More of an application waits.
    pub(crate) fn add(&mut self, payer: u32, bytes: usize) {
        if bytes > 0 {
            *self.bytes.entry(payer).or_default() += bytes;
        }
    }

    /// Less of an application waits.
    pub(crate) fn remove(&mut self, payer: u32, bytes: usize) {
        if let Some(all) = self.bytes.get_mut(&payer) {
            *all -= bytes;
            if *all == 0 {
                self.bytes.remove(&payer);
            }
        }
    }

    /// Whether more of an application may wait. If not, the call is told when it may.
    pub(crate) fn has_room(&mut self, payer: u32, call: RemoteCall) -> bool {
        let has_room = self.bytes.get(&payer).is_none_or(|bytes| *bytes < Passing::BYTES_MAX);
        if !has_room {
            let refused = self.refused.entry(payer).or_default();
            if !refused.contains(&call) {
                refused.push(call);
            }
        }
        has_room
    }

    /// Those that were refused, if there is room again.
    pub(crate) fn take_refused(&mut self, payer: u32) -> Vec<RemoteCall> {
        let has_room = self.bytes.get(&payer).is_none_or(|bytes| *bytes < Passing::BYTES_MAX);
        if has_room && !self.refused.is_empty() {
            return self.refused.remove(&payer).unwrap_or_default();
        }
        Vec::new()
    }
}
