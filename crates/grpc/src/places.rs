//! Where slow decompression happens: in at most half as many places as there are
//! processors, whatever peers send. Each peer has at most half of these, but one, or waits, and
//! its other messages wait behind that. So peers take turns, however much one of them sends.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for messages that are decompressed at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    count: usize,
    free: Arc<Semaphore>,
}

impl Places {
    pub(crate) fn new(count: usize) -> Places {
        Places { count, free: Arc::new(Semaphore::new(count)) }
    }

    /// The places of the process.
    fn all() -> &'static Places {
        static PLACES: OnceLock<Places> = OnceLock::new();
        PLACES.get_or_init(|| {
            let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
            Places::new((processors / 2).max(1))
        })
    }
}

/// A peer's share of the places: half of them, or as many turns in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    places: Places,
    own: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Share {
        Share::of(Places::all())
    }
}

impl Share {
    pub(crate) fn of(places: &Places) -> Share {
        let own = Arc::new(Semaphore::new((places.count / 2).max(1)));
        Share { places: places.clone(), own }
    }

    /// Waits for the peer's turn, and then for a place. Both are taken until the result is dropped.
    pub(crate) async fn place(self) -> Place {
        let turn = self.own.acquire_owned().await.expect("the semaphore is never closed");
        let place = self.places.free.acquire_owned().await.expect("the semaphore is never closed");
        Place { _turn: turn, _place: place }
    }
}

/// A taken place.
pub(crate) struct Place {
    _turn: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}
