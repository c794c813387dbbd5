//! What transactions need of a partition: locks, and versions that are validated (K15, K16).

use crate::item::{Item, Key};
use crate::locks::{LockError, LockOwner};
use crate::partition::Partition;

/// A key as a transaction reads it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'t> {
    /// Of the key's bucket (K5). A key without an item has one, too.
    pub version: u64,
    /// Whether somebody has locked its bucket.
    pub is_locked: bool,
    /// The item.
    pub item: Option<Item<'t>>,
}

impl Partition {
    /// The item of a key, and what tells later whether it has changed.
    pub fn see(&mut self, now_ms: u64, key: &Key<'_>) -> Seen<'_> {
        self.tell_time(now_ms);
        let spot = self.look(key, false);
        let state = self.memory.state(self.bucket(key));
        let item = spot.map(|spot| Item::new(&self.memory, spot.place, spot.header));
        Seen { version: state.version(), is_locked: state.is_locked(), item }
    }

    /// The same, and the bucket is locked for this owner.
    ///
    /// # Errors
    /// If another owner has locked it, or there can be no more locks. It is locked as before then.
    pub fn see_and_lock(
        &mut self,
        now_ms: u64,
        key: &Key<'_>,
        owner: LockOwner,
    ) -> Result<Seen<'_>, LockError> {
        let bucket = self.bucket(key);
        self.locks.lock(bucket, owner)?;
        // An item that has expired is noticed while the bucket is not locked yet.
        self.tell_time(now_ms);
        let _ = self.look(key, false);
        self.memory.set_locked(bucket, true);
        Ok(self.see(now_ms, key))
    }

    /// Whether the key is as it was when it had this version, and nobody but this owner has locked
    /// its bucket.
    #[must_use]
    pub fn validate(&self, key: &Key<'_>, version: u64, owner: LockOwner) -> bool {
        let bucket = self.bucket(key);
        let holder = self.locks.holder(bucket);
        self.memory.state(bucket).version() == version && holder.is_none_or(|held| held == owner)
    }

    /// Takes back one lock of the key's bucket.
    ///
    /// # Errors
    /// If this owner has none.
    pub fn unlock(&mut self, key: &Key<'_>, owner: LockOwner) -> Result<(), LockError> {
        let bucket = self.bucket(key);
        if self.locks.unlock(bucket, owner)? {
            self.memory.set_locked(bucket, false);
        }
        Ok(())
    }
}
