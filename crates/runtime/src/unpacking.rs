//! Decompression that takes a while, off the loops' threads.
//!
//! A loop serves others meanwhile. The threads are the process's: as many as half of the processors
//! have, whatever peers send, begun with the first message that needs one.
//!
//! Of the places for messages, one peer has at most as many as it leaves free; what is beyond is
//! refused. So with *n* peers that take all that they get, one in *n* + 1 stays free, and another
//! peer has half of these. Peers take turns at the threads: a message waits for its own peer's
//! messages, and for one of each other peer for each of these.

use core::future::Future;
use core::pin::Pin;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use petasos_call::Status;
use petasos_endpoint::PeerKey;
use petasos_rpc::intercept::CallSpan;

use crate::workers::Workers;

/// Messages that may wait for the threads, or be with them.
const PLACES: usize = 1024;

/// As many messages wait as may: of the peer's share, or of all.
#[derive(Debug)]
pub struct Busy;

impl From<Busy> for Status {
    fn from(_: Busy) -> Status {
        Status::resource_exhausted("too many messages wait to be decompressed")
    }
}

/// What is awaited in the loop. Given up when it is dropped, if its turn has not come.
pub type Unpacking<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Has `unpack` run on one of the threads, for a message of `peer`.
///
/// # Errors
/// If as many wait as may.
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

/// The places that are taken, by peer.
#[derive(Default)]
struct Shares(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    all: usize,
    /// Of those who have any.
    of: HashMap<PeerKey, usize>,
}

impl Shares {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a message of `peer`, if it leaves as many free as it has.
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

/// A message's place, given back when it is dropped.
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
        // Those who had more than the others get none until it is less.
        held[0].truncate(100);
        assert!(shares.take(peer(2)).is_some());
        held.clear();
        let taken = shares.taken();
        assert_eq!((taken.all, taken.of.len()), (0, 0), "nobody is remembered");
    }
}
