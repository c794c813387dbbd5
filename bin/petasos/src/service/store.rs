//! The stored values, with a memory limit.
//!
//! All endpoints of the process share one store behind one lock. The lock is held to find and
//! replace values, but not to copy them: a reader clones the `Arc` of a value, and copies the value
//! without the lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Status;

/// The overhead of a value: its reference counts, its key and its table entry.
const ENTRY_BYTES: usize = 64;

/// The store, shared by the endpoints.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Store>>);

impl Shared {
    /// An empty store for at most `bytes_max` bytes of values and overhead.
    pub fn new(bytes_max: usize) -> Shared {
        Shared(Arc::new(Mutex::new(Store { values: HashMap::new(), bytes: 0, bytes_max })))
    }

    /// Locks the store.
    pub fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().expect("nothing panics under the lock")
    }
}

/// Values by key. Invariant: `bytes` is the sum of all values' sizes with overhead, and at most
/// `bytes_max`.
pub struct Store {
    values: HashMap<u64, Arc<[u8]>>,
    bytes: usize,
    bytes_max: usize,
}

impl Store {
    /// Stores `value` under `key`. After [`Status::Full`], nothing has changed.
    pub fn put(&mut self, key: u64, value: Arc<[u8]>) -> Status {
        let freed = self.values.get(&key).map_or(0, |old| cost(old));
        let bytes = self.bytes - freed + cost(&value);
        if bytes > self.bytes_max {
            return Status::Full;
        }
        self.bytes = bytes;
        self.values.insert(key, value);
        Status::Done
    }

    /// The value of `key`.
    pub fn get(&self, key: u64) -> Option<Arc<[u8]>> {
        self.values.get(&key).cloned()
    }

    /// The values of `count` keys, starting at `first`, of at most `bytes_max` bytes together.
    ///
    /// # Errors
    /// The status of a failed scan.
    pub fn scan(&self, first: u64, count: u32, bytes_max: usize) -> Result<Scan, Status> {
        // A hostile count is harmless: the scan ends at the first missing key.
        let mut scan = Scan { values: Vec::new(), bytes: 0 };
        for step in 0..u64::from(count) {
            let key = first.checked_add(step).ok_or(Status::NotFound)?;
            let value = self.get(key).ok_or(Status::NotFound)?;
            scan.bytes += value.len();
            if scan.bytes > bytes_max {
                return Err(Status::TooLong);
            }
            scan.values.push(value);
        }
        Ok(scan)
    }

    /// The number of values, the bytes that they use, and the limit.
    pub fn totals(&self) -> (usize, usize, usize) {
        (self.values.len(), self.bytes, self.bytes_max)
    }
}

/// The result of [`Store::scan`].
pub struct Scan {
    /// The values, in the order of their keys.
    pub values: Vec<Arc<[u8]>>,
    /// Their bytes.
    pub bytes: usize,
}

fn cost(value: &[u8]) -> usize {
    value.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &Shared, key: u64, value: &[u8]) -> Status {
        store.lock().put(key, Arc::from(value))
    }

    #[test]
    fn the_bound_holds_and_replacing_frees() {
        let store = Shared::new(2 * ENTRY_BYTES + 10);
        assert_eq!(put(&store, 1, &[1; 6]), Status::Done);
        assert_eq!(put(&store, 2, &[2; 4]), Status::Done);
        assert_eq!(put(&store, 1, &[1; 7]), Status::Full);
        assert_eq!(store.lock().get(1).as_deref(), Some([1; 6].as_slice()));
        assert_eq!(put(&store, 1, &[1; 5]), Status::Done);
        assert_eq!(put(&store, 2, &[2; 5]), Status::Done);
        assert_eq!(store.lock().totals(), (2, 2 * ENTRY_BYTES + 10, 2 * ENTRY_BYTES + 10));
    }

    #[test]
    fn a_scan_is_bounded_by_what_is_there() {
        let store = Shared::new(1 << 20);
        for key in 1..=3 {
            put(&store, key, &[key as u8; 10]);
        }
        let scan = |first, count, max| store.lock().scan(first, count, max).map(|scan| scan.bytes);
        assert_eq!(scan(1, 3, 30), Ok(30));
        assert_eq!(scan(1, 3, 29), Err(Status::TooLong));
        assert_eq!(scan(1, u32::MAX, 1 << 20), Err(Status::NotFound));
        assert_eq!(scan(u64::MAX, 2, 1 << 20), Err(Status::NotFound));
        assert_eq!(scan(9, 0, 0), Ok(0));
    }
}
