//! The cache in memory, for tests.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};

use super::Cache;
use crate::error::Error;

/// A cache that may be away, and never forgets.
#[derive(Default)]
pub struct Memory {
    values: Mutex<BTreeMap<String, Vec<u8>>>,
    is_away: AtomicBool,
}

impl Memory {
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// The keys that are there.
    pub fn keys(&self) -> Vec<String> {
        self.values.lock().expect("nothing panics under the lock").keys().cloned().collect()
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> Result<T, Error> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(Error::away("the cache is away")),
            false => Ok(act(&mut self.values.lock().expect("nothing panics under the lock"))),
        }
    }
}

impl Cache for Memory {
    async fn get(&self, keys: &[String]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.with(|values| {
            let found = keys.iter().filter_map(|key| Some((key.clone(), values.get(key)?.clone())));
            found.collect()
        })
    }

    async fn set(&self, key: &str, value: &[u8], _: Option<Duration>) -> Result<(), Error> {
        self.with(|values| drop(values.insert(key.to_owned(), value.to_vec())))
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        self.with(|values| drop(values.remove(key)))
    }
}
