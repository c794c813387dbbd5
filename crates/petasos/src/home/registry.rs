//! The loops of the process, for futures that end elsewhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::shared::{Letter, Shared};

/// The loops of the process by number, for futures that end elsewhere.
static HOMES: Mutex<Option<HashMap<u32, Arc<Shared>>>> = Mutex::new(None);

/// Adds a loop.
pub(crate) fn add(shared: Arc<Shared>) {
    let mut homes = HOMES.lock().expect("nothing panics under the lock");
    homes.get_or_insert_default().insert(shared.home, shared);
}

/// A loop has ended.
pub(crate) fn remove(home: u32) {
    let mut homes = HOMES.lock().expect("nothing panics under the lock");
    homes.as_mut().and_then(|homes| homes.remove(&home));
}

/// Tells a loop something, wherever it is. If it is gone, the letter is declined.
pub(crate) fn post(home: u32, letter: Letter) {
    let homes = HOMES.lock().expect("nothing panics under the lock");
    let shared = homes.as_ref().and_then(|homes| homes.get(&home)).cloned();
    drop(homes);
    match shared {
        Some(shared) => shared.post(letter),
        None => letter.decline(),
    }
}

/// A number that no other loop has, now or earlier.
pub(crate) fn next_home() -> u32 {
    static NEXT: Mutex<u32> = Mutex::new(0);
    let mut next = NEXT.lock().expect("nothing panics under the lock");
    *next += 1;
    *next
}
