//! Lists of hotels in requests, and what is known of them: from the cache, else from the store.

use std::collections::HashMap;
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::{self, Cache};
use crate::error::Error;

/// The most hotels of a request.
pub const HOTELS_MAX: usize = 128;
/// The longest name of a hotel.
const ID_BYTES_MAX: usize = 64;

/// Refuses lists that are too long, and names that no hotel has: they are parts of the cache's
/// keys.
///
/// # Errors
/// [`Kind::Invalid`](crate::error::Kind::Invalid).
pub fn check(hotel_ids: &[String]) -> Result<(), Error> {
    if hotel_ids.len() > HOTELS_MAX {
        return Err(Error::invalid(format!("at most {HOTELS_MAX} hotels are asked for at once")));
    }
    let is_id = |id: &String| {
        (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    match hotel_ids.iter().find(|id| !is_id(id)) {
        None => Ok(()),
        Some(id) => Err(Error::invalid(format!("no hotel is named `{}`", id.escape_debug()))),
    }
}

/// What is known of these hotels, by their names. What the cache does not have is taken from the
/// store by `fetch`, and put into the cache under `kind:HOTEL`.
///
/// # Errors
/// The store's.
pub async fn known<T, F>(
    kind: &str,
    hotel_ids: &[String],
    cache: &impl Cache,
    fetch: impl FnOnce(Vec<String>) -> F,
) -> Result<HashMap<String, T>, Error>
where
    T: Serialize + DeserializeOwned + Send + Sync,
    F: Future<Output = Result<Vec<(String, T)>, Error>>,
{
    check(hotel_ids)?;
    let key = |id: &String| format!("{kind}:{id}");
    let keys: Vec<String> = hotel_ids.iter().map(key).collect();
    let mut found: HashMap<String, T> = cache::found(cache, &keys).await.into_iter().collect();
    let mut known = HashMap::new();
    let mut missing = Vec::new();
    for (id, key) in hotel_ids.iter().zip(&keys) {
        match found.remove(key) {
            Some(value) => drop(known.insert(id.clone(), value)),
            None if known.contains_key(id) || missing.contains(id) => {}
            None => missing.push(id.clone()),
        }
    }
    if missing.is_empty() {
        return Ok(known);
    }
    for (id, value) in fetch(missing).await? {
        cache::keep(cache, &key(&id), &value, None).await;
        known.insert(id, value);
    }
    Ok(known)
}
