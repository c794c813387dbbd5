//! Messages that the application reads in the receive heap, where the service has put them.
//!
//! Such a message is [`Bytes`], on any thread. When its last owner drops it, its place comes back
//! to the loop, which returns it to the service (D9).

use bytes::Bytes;
use petasos_abi::Contents;
use petasos_endpoint::Notifier;
use petasos_shm::{Loan, Loans, ReceivedSlice};

/// What is handed out and comes back. It belongs to the loop's thread.
pub(crate) struct KeptMessages {
    loans: Loans,
    /// That may be handed out at a time.
    bytes_max: u64,
}

/// A message that is read where it lies, until it is dropped: first the slice, since the service
/// may write there as soon as the loop knows.
struct Kept {
    slice: ReceivedSlice,
    _loan: Loan,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.slice.as_ref()
    }
}

impl KeptMessages {
    /// At most so many bytes are handed out at a time: more would leave the service no memory to
    /// hand other messages over in. `notifier` makes the loop turn.
    pub(crate) fn new(bytes_max: u64, notifier: Notifier) -> KeptMessages {
        KeptMessages { loans: Loans::new(move || notifier.notify()), bytes_max }
    }

    /// Whether this message may be handed out, too.
    pub(crate) fn has_room(&self, contents: Contents) -> bool {
        self.loans.bytes() + u64::from(contents.bytes) <= self.bytes_max
    }

    /// Hands a message out that lies there; `None` if it is handed out already.
    pub(crate) fn hand_out(&self, contents: Contents, slice: ReceivedSlice) -> Option<Bytes> {
        let loan = self.loans.lend(contents)?;
        Some(Bytes::from_owner(Kept { slice, _loan: loan }))
    }

    /// Takes what has come back.
    pub(crate) fn take_dropped(&self) -> Vec<Contents> {
        self.loans.take_returned()
    }
}
