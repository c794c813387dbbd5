//! What the loops of a server count. Each loop writes its own; anybody reads.

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_store::PartitionStats;
use serde::{Deserialize, Serialize};

use crate::request::Operation;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One loop's.
        #[derive(Debug, Default)]
        pub(crate) struct LoopCounters {
            $(pub $name: AtomicU64,)*
        }

        /// A server's, of all its loops.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub struct KvStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl KvStats {
            pub(crate) fn add(&mut self, counters: &LoopCounters) {
                $(self.$name += counters.$name.load(Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// Operations that read.
    reads,
    /// Those of them that found an item.
    hits,
    /// Operations that write, whether or not their conditions held.
    writes,
    /// Deletions.
    deletes,
    /// Operations that were refused: full, too long, locked, malformed, no number.
    refused,
    /// Requests of other loops' keys, which were passed on.
    astray,
    /// Items. Of a cache, those that were overwritten count until that is noticed.
    items,
    /// Bytes of all items, of a store.
    items_bytes,
    /// Bytes of items that always have room.
    capacity_bytes,
    /// Items that have expired, as far as that was noticed.
    expired,
    /// Items that a cache has forgotten, as far as that was noticed.
    forgotten,
    /// Items of a cache that were written anew, as they were read often.
    kept,
    /// Bytes that cleaning has moved.
    moved_bytes,
}

/// Counts what only its own loop counts: no instruction that other loops could wait for.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl LoopCounters {
    /// Counts an operation.
    #[inline]
    pub fn count(&self, operation: Operation, is_hit: bool) {
        use Operation::*;
        let counter = match operation {
            Get | GetAndTouch => {
                count(&self.hits, is_hit.into());
                &self.reads
            }
            Delete => &self.deletes,
            _ => &self.writes,
        };
        count(counter, 1);
    }

    /// Tells what is in the loop's partitions.
    pub fn publish(&self, partitions: impl Iterator<Item = (PartitionStats, [u64; 2])>) {
        let mut sums = [0; 7];
        for (stats, [items_bytes, capacity_bytes]) in partitions {
            let PartitionStats { items, expired, forgotten, kept, moved_bytes, .. } = stats;
            let of = [items, items_bytes, capacity_bytes, expired, forgotten, kept, moved_bytes];
            sums.iter_mut().zip(of).for_each(|(sum, one)| *sum += one);
        }
        let told = [
            &self.items,
            &self.items_bytes,
            &self.capacity_bytes,
            &self.expired,
            &self.forgotten,
            &self.kept,
            &self.moved_bytes,
        ];
        told.iter().zip(sums).for_each(|(counter, sum)| counter.store(sum, Ordering::Relaxed));
    }
}
