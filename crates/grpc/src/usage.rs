//! What one peer uses of a server, over all of its connections: calls, memory for what it sends and
//! does not read, and decompression.
//!
//! A call's part is given back when its handler is over and its responses have left. A message
//! that a handler keeps for longer counts for the process only ([`petasos_buf::memory`]).
//!
//! Clients' calls have no [`CallUse`]: a process chooses its servers.

use std::sync::{Arc, Weak};

use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_buf::memory::{self, Counted};

use crate::places::Share;
use crate::refusals::Refusal;
use crate::{GrpcConfig, Refusals};

/// A new connection may take at most this fraction of what is left for windows, so that later ones
/// still get some.
const WINDOWS_PART: usize = 8;
/// How many bytes `h2` may add for each byte of a window, because frames are short.
const FRAMES_FACTOR: usize = 8;
/// HTTP/2's initial window, which cannot be taken back.
pub(crate) const WINDOW_BYTES_MIN: u32 = 65_535;

// All accesses are relaxed: these counts guard no other memory.
const RELAXED: Ordering = Ordering::Relaxed;

/// What a peer uses, and how much it may use.
#[derive(Debug)]
pub(crate) struct PeerUse {
    calls_max: usize,
    bytes_max: Option<usize>,
    calls: AtomicUsize,
    /// In messages.
    bytes: AtomicUsize,
    window_bytes: AtomicUsize,
    unpacking: Share,
    refusals: Refusals,
}

/// One call of a peer. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct CallUse {
    peer: Arc<PeerUse>,
    bytes: AtomicUsize,
}

/// Bytes that count for a call's peer until this is dropped or the call ends.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    call: Weak<CallUse>,
    bytes: usize,
}

/// Bytes of messages that count for the process, and for a call's peer if there is one.
#[derive(Debug, Default)]
pub(crate) struct Held {
    process: Counted,
    charge: Charge,
}

/// Bytes that a connection's peer may send before they are read. They count until this is dropped,
/// with what `h2` may add to them.
pub(crate) struct Window {
    peer: Arc<PeerUse>,
    bytes: u32,
}

/// Why a message does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The process's account.
    Process,
    /// The peer's share.
    Peer,
}

impl PeerUse {
    pub(crate) fn new(config: &GrpcConfig, refusals: Refusals) -> PeerUse {
        PeerUse {
            calls_max: config.calls_per_peer_max,
            bytes_max: config.bytes_per_peer_max,
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            window_bytes: AtomicUsize::new(0),
            unpacking: Share::default(),
            refusals,
        }
    }

    /// Begins a call, unless the peer has too many, or has used up its share of memory.
    pub(crate) fn begin_call(self: &Arc<PeerUse>) -> Option<Arc<CallUse>> {
        let has_room = self.has_room(1);
        let more = |calls| (has_room && calls < self.calls_max).then_some(calls + 1);
        if self.calls.fetch_update(RELAXED, RELAXED, more).is_err() {
            self.refusals.count(Refusal::Calls);
            return None;
        }
        Some(Arc::new(CallUse { peer: self.clone(), bytes: AtomicUsize::new(0) }))
    }

    /// Takes the window of a new connection: `bytes_max`, or less if other connections of the peer
    /// have taken much, but at least `bytes_min`.
    pub(crate) fn window(self: &Arc<PeerUse>, bytes_min: u32, bytes_max: u32) -> Window {
        let all_max = self.half_bytes_max();
        let share = |taken| {
            let part = all_max.saturating_sub(taken) / WINDOWS_PART / (1 + FRAMES_FACTOR);
            u32::try_from(part)
                .unwrap_or(u32::MAX)
                .min(bytes_max)
                .max(bytes_min.max(WINDOW_BYTES_MIN))
        };
        let more = |taken| Some(taken + with_frames(share(taken)));
        let update = self.window_bytes.fetch_update(RELAXED, RELAXED, more);
        let bytes = share(update.unwrap_or_else(|taken| taken));
        Window { peer: self.clone(), bytes }
    }

    /// How many calls the peer has.
    #[cfg(test)]
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(RELAXED)
    }

    /// The peer's share of the decompression threads.
    pub(crate) fn unpacking(&self) -> &Share {
        &self.unpacking
    }

    /// Whether messages may take `bytes` more.
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes.load(RELAXED).saturating_add(bytes) <= self.half_bytes_max()
    }

    /// The most bytes of messages, and the most bytes of windows besides the least ones.
    fn half_bytes_max(&self) -> usize {
        self.bytes_max.unwrap_or_else(|| memory::usage().limit_bytes) / 2
    }
}

impl CallUse {
    /// Whether a message from the peer may take `bytes` more.
    pub(crate) fn admit(call: Option<&Arc<CallUse>>, bytes: usize) -> Result<(), Full> {
        if call.is_some_and(|call| !call.has_room(bytes)) {
            return Err(Full::Peer);
        }
        if memory::admits(bytes) { Ok(()) } else { Err(Full::Process) }
    }

    /// Whether a message from or to the peer may take `bytes` more. If not, it counts a refusal.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let has_room = self.peer.has_room(bytes);
        if !has_room {
            self.peer.refusals.count(Refusal::Messages);
        }
        has_room
    }
}

impl Drop for CallUse {
    fn drop(&mut self) {
        self.peer.bytes.fetch_sub(*self.bytes.get_mut(), RELAXED);
        self.peer.calls.fetch_sub(1, RELAXED);
    }
}

impl Charge {
    /// No bytes yet.
    pub(crate) fn of(call: Option<&Arc<CallUse>>) -> Charge {
        Charge { call: call.map(Arc::downgrade).unwrap_or_default(), bytes: 0 }
    }

    /// Counts this many bytes from now on.
    pub(crate) fn set(&mut self, bytes: usize) {
        let before = core::mem::replace(&mut self.bytes, bytes);
        let Some(call) = self.call.upgrade() else { return };
        for count in [&call.bytes, &call.peer.bytes] {
            count.fetch_add(bytes, RELAXED);
            count.fetch_sub(before, RELAXED);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Held {
    /// No bytes yet.
    pub(crate) fn of(call: Option<&Arc<CallUse>>) -> Held {
        Held { process: Counted::default(), charge: Charge::of(call) }
    }

    /// Counts this many bytes from now on.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.process.set(bytes);
        self.charge.set(bytes);
    }
}

impl Window {
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// How many bytes `h2` may add to frames that are not read. It adds 256 bytes less a short
    /// frame's length, and ends the connection beyond that. So clients whose frames have 29 bytes
    /// or more (messages of 24) wait for the window first.
    pub(crate) fn frames_bytes_max(&self) -> usize {
        self.bytes as usize * FRAMES_FACTOR
    }
}

fn with_frames(window_bytes: u32) -> usize {
    window_bytes as usize * (1 + FRAMES_FACTOR)
}

impl Drop for Window {
    fn drop(&mut self) {
        self.peer.window_bytes.fetch_sub(with_frames(self.bytes), RELAXED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(calls_max: usize, bytes_max: usize) -> Arc<PeerUse> {
        let mut config = GrpcConfig::default();
        (config.calls_per_peer_max, config.bytes_per_peer_max) = (calls_max, Some(bytes_max));
        Arc::new(PeerUse::new(&config, Refusals::default()))
    }

    #[test]
    fn a_call_gives_back_what_its_messages_took_and_a_kept_message_only_once() {
        let peer = peer(2, 200);
        let calls = [peer.begin_call(), peer.begin_call()];
        assert!(calls.iter().all(Option::is_some) && peer.begin_call().is_none());
        let [first, second] = calls;
        let mut kept = Charge::of(first.as_ref());
        kept.set(70);
        assert_eq!(CallUse::admit(second.as_ref(), 31), Err(Full::Peer));
        assert_eq!(CallUse::admit(second.as_ref(), 30), Ok(()));
        kept.set(40);
        assert_eq!(CallUse::admit(second.as_ref(), 60), Ok(()));
        drop(first);
        assert_eq!(peer.bytes.load(RELAXED), 0, "what is kept no longer counts for the peer");
        kept.set(80);
        drop(kept);
        assert_eq!(CallUse::admit(second.as_ref(), 100), Ok(()));
        drop(second);
        assert_eq!(peer.calls.load(RELAXED), 0);
        assert_eq!(CallUse::admit(None, 1 << 20), Ok(()), "a client's calls have no peer");
    }

    #[test]
    fn windows_stay_within_half_of_a_peers_bytes_besides_the_least_ones() {
        let peer = peer(1, 2 * 9 * 64_000_000);
        let windows: Vec<Window> = (0..100).map(|_| peer.window(10, 5_000_000)).collect();
        assert_eq!(windows[0].bytes(), 5_000_000, "one connection is not limited");
        assert!(windows.windows(2).all(|two| two[1].bytes() <= two[0].bytes()));
        assert!(windows[10].bytes() > 2_000_000, "later ones get some: {}", windows[10].bytes());
        let sum: usize = windows.iter().map(|window| with_frames(window.bytes())).sum();
        assert!(sum <= 9 * (64_000_000 + windows.len() * WINDOW_BYTES_MIN as usize), "{sum}");
        drop(windows);
        assert_eq!(peer.window_bytes.load(RELAXED), 0);
    }
}
