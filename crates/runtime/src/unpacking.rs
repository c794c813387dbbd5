//! Slow decompression, on dedicated threads.
//!
//! A loop serves other calls meanwhile. The process has half as many of these threads as
//! processors, whatever peers send. They start with the first message that needs one.
//!
//! The number of places for messages is limited. A peer may occupy at most as many places as it
//! leaves free; further messages are refused. Therefore, if n peers occupy all that they can get,
//! one place in n + 1 stays free, and another peer can get half of these. Peers take turns at the
//! threads: a message waits for the earlier messages of its peer and, for each of these, for one
//! message of each other peer.

use core::future::Future;
use core::pin::Pin;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use petasos_call::Status;
use petasos_endpoint::PeerKey;
use petasos_rpc::intercept::CallSpan;

use crate::workers::Workers;

/// The most messages that wait for the threads or are being decompressed.
const PLACES: usize = 1024;

/// There is no place left: the peer has its share, or all are occupied.
#[derive(Debug)]
pub struct Busy;

impl From<Busy> for Status {
    fn from(_: Busy) -> Status {
        Status::resource_exhausted("too many messages wait to be decompressed")
    }
}

/// The result, for awaiting in the loop. Dropping it cancels the work, unless it has started.
pub type Unpacking<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs `unpack` on one of the threads, for a message of `peer`.
///
/// # Errors
/// There is no place left for the peer.
#[cold]
pub fn start<T: Send + 'static>(
    peer: PeerKey,
    unpack: impl FnOnce() -> T + Send + 'static,
) -> Result<Unpacking<T>, Busy> {
    static WORKERS: OnceLock<Option<Workers>> = OnceLock::new();
    static SHARES: OnceLock<Shares> = OnceLock::new();
    let workers = WORKERS.get_or_init(|| {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Workers::on_threads((processors / 2).max(1), PLACES).ok()
    });
    let workers = workers.as_ref().ok_or(Busy)?;
    let place = SHARES.get_or_init(Shares::default).take(peer).ok_or(Busy)?;
    let unpack = || async move {
        let _place = place;
        unpack()
    };
    let running = workers.run_for(peer, None, CallSpan::default(), unpack);
    Ok(Box::pin(running.map_err(|_| Busy)?))
}

/// The occupied places, by peer.
#[derive(Default)]
struct Shares(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    all: usize,
    /// The number of places of each peer that has any.
    of: HashMap<PeerKey, usize>,
}

impl Shares {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Occupies a place for a message of `peer`, if the peer has fewer places than are free.
    fn take(&'static self, peer: PeerKey) -> Option<Place> {
        let mut taken = self.taken();
        let has = taken.of.get(&peer).copied().unwrap_or(0);
        if has >= PLACES - taken.all {
            return None;
        }
        taken.all += 1;
        taken.of.insert(peer, has + 1);
        Some(Place { shares: self, peer })
    }
}

/// A message's place. It is freed on drop.
struct Place {
    shares: &'static Shares,
    peer: PeerKey,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        taken.all -= 1;
        let left = taken.of.remove(&self.peer).map_or(0, |has| has - 1);
        if left > 0 {
            taken.of.insert(self.peer, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> PeerKey {
        PeerKey::of_address([10, 0, 0, number].into())
    }

    fn take_all(shares: &'static Shares, peer: PeerKey) -> Vec<Place> {
        core::iter::from_fn(|| shares.take(peer)).collect()
    }

    #[test]
    fn peers_that_take_all_they_get_leave_places_to_others() {
        let shares: &Shares = Box::leak(Box::default());
        let mut held = Vec::new();
        for (number, share) in (1..).zip([512, 256, 128]) {
            held.push(take_all(shares, peer(number)));
            assert_eq!(held.last().map(Vec::len), Some(share));
        }
        // Peers that have more than the others get no places until they have fewer.
        held[0].truncate(100);
        assert!(shares.take(peer(2)).is_some());
        held.clear();
        let taken = shares.taken();
        assert_eq!((taken.all, taken.of.len()), (0, 0), "nobody is remembered");
    }
}
