//! Memory for messages that have been announced and have not arrived completely.
//!
//! The first packet of a message tells its length, and that much memory is allocated at once,
//! because messages are contiguous. So an announcement costs a peer one packet, and this endpoint
//! megabytes. A peer's announcements ([`petasos_tls::Holder`]) may use as much of the pool as
//! they leave free. With *n* greedy peers, a part in *n* + 1 is left for others (dynamic
//! thresholds: Choudhury and Hahne, 1998). If that is not enough for a request, sessions that have
//! gone silent in the middle of requests lose theirs: these are rejected as overloaded, have not
//! run, and may be sent again (W22). Responses end with their calls, and calls with their timeouts.
//!
//! Invariant: a holder's announced bytes are the sum of its server sessions' `assembling`, of the
//! responses for which its client sessions, or pairs that are bound to it, have buffers, and of
//! what sessions of its requests by groups have `counted`.

use core::time::Duration;

use petasos_base::Time;
use petasos_buf::{MsgBuf, Pool};
use petasos_proto::RequestAction;
use petasos_wire::RejectCode;

use super::Core;
use crate::quota::HolderId;

/// A session from which nothing new has come for this long has stalled.
const STALLED: Duration = Duration::from_secs(1);
/// The shortest time between two searches through all sessions.
const SWEEP_GAP: Duration = Duration::from_millis(100);

/// When stalled sessions may be searched for.
#[derive(Default)]
pub(crate) struct Assemblies {
    sweep_at: Time,
}

impl<S> Core<S> {
    /// Handles a packet for a session that has assemblies, or that begins one. `replaced` is the
    /// packet's slot, if that had an assembly before.
    pub(crate) fn on_assembly(&mut self, index: u32, action: RequestAction, replaced: Option<u32>) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        match action {
            RequestAction::Store { last, .. } => {
                entry.assembled_at = self.now;
                if !last {
                    return;
                }
            }
            RequestAction::Begin { .. } => entry.assembled_at = self.now,
            RequestAction::Deliver | RequestAction::Reject(_) => {
                // A newer request took the slot: the old one's memory would not be counted any
                // more.
                let old = replaced.and_then(|slot| entry.session.kept_mut(slot).take());
                if let Some(old) = old {
                    self.pool.give(old);
                }
            }
            RequestAction::Released { .. } => {}
            RequestAction::None | RequestAction::Repeat { .. } | RequestAction::Pull { .. } => {
                return;
            }
        }
        self.count_assemblies(index);
    }

    /// Recounts a session's assemblies, after some have begun or ended.
    pub(crate) fn count_assemblies(&mut self, index: u32) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        let bytes = entry.session.receiving().map(|bytes| pool_bytes(bytes as usize)).sum();
        let before = core::mem::replace(&mut entry.assembling, bytes);
        self.holders.announce(entry.from.holder, before, bytes);
    }

    /// Forgets the assemblies of a session that is gone.
    pub(crate) fn forget_assemblies(&mut self, of: HolderId, bytes: u64) {
        self.holders.announce(of, bytes, 0);
    }

    /// A buffer for the response of `bytes` that a server has announced, if the server may have
    /// that much.
    pub(crate) fn take_for_response(&mut self, index: u32, bytes: u32) -> Option<MsgBuf> {
        let of = self.clients.get(index)?.holder;
        self.take_announced(of, bytes)
    }

    /// The same for a server that counts as this holder.
    pub(crate) fn take_announced(&mut self, of: HolderId, bytes: u32) -> Option<MsgBuf> {
        let taken = pool_bytes(bytes as usize);
        if self.holders.announced(of) + taken > self.pool.lendable_bytes() as u64 {
            self.stats.responses_refused += 1;
            return None;
        }
        let buf = self.take_buffer(bytes as usize)?;
        self.holders.announce(of, 0, taken);
        Some(buf)
    }

    /// Forgets a response that is complete or given up.
    pub(crate) fn forget_response(&mut self, index: u32, response: &MsgBuf) {
        let entry = self.clients.get(index).expect("a session outlives its calls");
        self.forget_announced(entry.holder, response.len());
    }

    /// Undoes [`Core::take_announced`] for a response of so many bytes.
    pub(crate) fn forget_announced(&mut self, of: HolderId, bytes: usize) {
        self.holders.announce(of, pool_bytes(bytes), 0);
    }

    /// Whether the request whose announcement was just counted may allocate its memory.
    pub(crate) fn admits_assembly(&mut self, index: u32) -> bool {
        if self.fits_share(index) {
            return true;
        }
        self.reclaim_stalled(index);
        self.fits_share(index)
    }

    fn fits_share(&self, index: u32) -> bool {
        let Some(entry) = self.servers.get(index) else { return false };
        self.holders.announced(entry.from.holder) <= self.pool.lendable_bytes() as u64
    }

    /// Ends the assemblies of stalled sessions, except of `spared`, from which a packet has just
    /// arrived.
    #[cold]
    fn reclaim_stalled(&mut self, spared: u32) {
        if self.now < self.assemblies.sweep_at {
            return;
        }
        self.assemblies.sweep_at = self.now + SWEEP_GAP;
        let until = self.now;
        let stalled = self.servers.iter().filter(|(index, entry)| {
            entry.assembling > 0 && *index != spared && entry.assembled_at + STALLED <= until
        });
        for index in stalled.map(|(index, _)| index).collect::<Vec<_>>() {
            self.give_up_assemblies(index);
        }
    }

    fn give_up_assemblies(&mut self, index: u32) {
        let Some(entry) = self.servers.get(index) else { return };
        for slot in 0..entry.session.params().slots {
            let entry = self.servers.get_mut(index).expect("the session was just found");
            if !entry.session.is_receiving(slot) {
                continue;
            }
            let request = entry.session.request_in(slot);
            if let Some(buf) = entry.session.kept_mut(slot).take() {
                self.pool.give(buf);
            }
            self.stats.assemblies_given_up += 1;
            self.reject(index, request, RejectCode::Overloaded);
        }
        self.count_assemblies(index);
    }
}

/// How much of the pool a message of `bytes` uses: buffers are up to twice as long.
pub(crate) fn pool_bytes(bytes: usize) -> u64 {
    Pool::lent_for(bytes) as u64
}
