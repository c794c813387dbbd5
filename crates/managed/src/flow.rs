//! Counts how much of a stream's messages is in transit between this process and the service (D8).

use petasos_abi::{Credit, Taken};

/// Of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// What this process may send.
    pub(crate) credit: Credit,
    /// What it has taken.
    pub(crate) taken: Taken,
}

impl Flow {
    /// Of a stream of which each side may send so many bytes before the first grant.
    pub(crate) fn new(grant_bytes: u64) -> Flow {
        Flow { credit: Credit::new(grant_bytes), taken: Taken::new(grant_bytes) }
    }
}
