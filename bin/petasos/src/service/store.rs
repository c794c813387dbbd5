//! The stored values, and the bound on their memory.
//!
//! One store serves all endpoints of the process, under one lock, which is held to find and to
//! replace values, never to copy them: a reader takes a count on the value and copies it outside.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Status;

/// What one value costs beyond its bytes: its counts, its key and its place in the table.
const ENTRY_BYTES: usize = 64;

/// The store as the endpoints share it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Store>>);

impl Shared {
    /// An empty store for at most `bytes_max` bytes of values and bookkeeping.
    pub fn new(bytes_max: usize) -> Shared {
        Shared(Arc::new(Mutex::new(Store { values: HashMap::new(), bytes: 0, bytes_max })))
    }

    /// The store.
    pub fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().expect("nothing panics under the lock")
    }
}

/// Values by key. Invariant: `bytes` is the sum of all values' cost and at most `bytes_max`.
pub struct Store {
    values: HashMap<u64, Arc<[u8]>>,
    bytes: usize,
    bytes_max: usize,
}

impl Store {
    /// Stores `value` under `key`; [`Status::Full`] leaves everything as it was.
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

    /// The values of `count` keys from `first` on, of at most `bytes_max` bytes together.
    ///
    /// # Errors
    /// Why there is no such answer.
    pub fn scan(&self, first: u64, count: u32, bytes_max: usize) -> Result<Scan, Status> {
        // A hostile count costs no more than the first key that is missing.
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

    /// Values stored, bytes that they cost, and the bound on these.
    pub fn totals(&self) -> (usize, usize, usize) {
        (self.values.len(), self.bytes, self.bytes_max)
    }
}

/// What [`Store::scan`] has found.
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
