//! Which buckets are locked, and for whom (K15).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Who locks buckets: not 0.
pub type LockOwner = core::num::NonZeroU32;

/// Why a bucket was not locked or unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another owner has it: try again soon.
    #[error("another owner has locked the key's bucket")]
    Locked,
    /// This owner has locked it 255 times: its fault.
    #[error("its owner has locked the key's bucket 255 times already")]
    TooOften,
    /// As many buckets are locked as can be: try again later.
    #[error("as many buckets are locked as can be")]
    Full,
    /// This owner has not locked it: its fault.
    #[error("its owner has not locked the key's bucket")]
    NotLocked,
}

#[derive(Debug)]
struct Lock {
    owner: LockOwner,
    times: u8,
}

/// The locks of a partition's buckets.
#[derive(Debug)]
pub(crate) struct Locks {
    held: HashMap<usize, Lock>,
    most: usize,
}

impl Locks {
    pub fn new(most: u32) -> Locks {
        let most = most as usize;
        Locks { held: HashMap::with_capacity(most), most }
    }

    pub fn holder(&self, bucket: usize) -> Option<LockOwner> {
        self.held.get(&bucket).map(|lock| lock.owner)
    }

    pub fn lock(&mut self, bucket: usize, owner: LockOwner) -> Result<(), LockError> {
        let is_full = self.held.len() >= self.most;
        match self.held.entry(bucket) {
            Entry::Vacant(_) if is_full => return Err(LockError::Full),
            Entry::Vacant(free) => {
                free.insert(Lock { owner, times: 1 });
            }
            Entry::Occupied(held) => {
                let lock = held.into_mut();
                if lock.owner != owner {
                    return Err(LockError::Locked);
                }
                lock.times = lock.times.checked_add(1).ok_or(LockError::TooOften)?;
            }
        }
        Ok(())
    }

    /// Says whether the bucket is free now.
    pub fn unlock(&mut self, bucket: usize, owner: LockOwner) -> Result<bool, LockError> {
        let Entry::Occupied(mut held) = self.held.entry(bucket) else {
            return Err(LockError::NotLocked);
        };
        let lock = held.get_mut();
        if lock.owner != owner {
            return Err(LockError::NotLocked);
        }
        lock.times -= 1;
        let is_free = lock.times == 0;
        if is_free {
            held.remove();
        }
        Ok(is_free)
    }
}
