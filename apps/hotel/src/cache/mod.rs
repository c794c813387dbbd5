//! What the services remember: a trait, memcached behind it, and for tests the same in memory.

pub mod memcached;
#[cfg(test)]
pub mod memory;
mod protocol;

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// A cache. It may forget at any time, and may be away: then services ask the store.
pub trait Cache: Send + Sync + 'static {
    /// The values that are there, with their keys.
    fn get(
        &self,
        keys: &[String],
    ) -> impl Future<Output = Result<Vec<(String, Vec<u8>)>, Error>> + Send;

    /// Keeps a value, if `expiry` is given no longer than that.
    fn set(
        &self,
        key: &str,
        value: &[u8],
        expiry: Option<Duration>,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Forgets a value.
    fn delete(&self, key: &str) -> impl Future<Output = Result<(), Error>> + Send;
}

/// What is in the cache as JSON under each of the keys; nothing if the cache is away, or has
/// something else there.
pub async fn found<T: DeserializeOwned>(cache: &impl Cache, keys: &[String]) -> Vec<(String, T)> {
    if keys.is_empty() {
        return Vec::new();
    }
    let values = cache.get(keys).await.unwrap_or_default();
    let read = |(key, value): (String, Vec<u8>)| Some((key, serde_json::from_slice(&value).ok()?));
    values.into_iter().filter_map(read).collect()
}

/// Keeps a value as JSON. That this fails matters to nobody: the store has it.
pub async fn keep<T: Serialize + Sync>(
    cache: &impl Cache,
    key: &str,
    value: &T,
    expiry: Option<Duration>,
) {
    if let Ok(json) = serde_json::to_vec(value) {
        let _ = cache.set(key, &json, expiry).await;
    }
}
