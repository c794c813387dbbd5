//! The loops of the process, for futures that end elsewhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use petasos_rpc::current;

use super::shared::{Command, Shared};

/// The loops of the process by number, for futures that end elsewhere.
static HOMES: Mutex<Option<HashMap<u32, Arc<Shared>>>> = Mutex::new(None);

/// Adds a loop.
pub(crate) fn add(shared: Arc<Shared>) {
    current::set_peer_of(|home, session| shared_of(home)?.client(session));
    let mut homes = HOMES.lock().expect("nothing panics under the lock");
    homes.get_or_insert_default().insert(shared.home, shared);
}

/// A loop has ended.
pub(crate) fn remove(home: u32) {
    let mut homes = HOMES.lock().expect("nothing panics under the lock");
    homes.as_mut().and_then(|homes| homes.remove(&home));
}

/// Tells a loop something, wherever it is. If it is gone, the command is declined.
pub fn send(home: u32, command: Command) {
    match shared_of(home) {
        Some(shared) => shared.send(command),
        None => command.decline(),
    }
}

/// What other threads may touch of a loop, if there still is one of this number.
pub(crate) fn shared_of(home: u32) -> Option<Arc<Shared>> {
    let homes = HOMES.lock().expect("nothing panics under the lock");
    homes.as_ref().and_then(|homes| homes.get(&home)).cloned()
}

/// A number that no other loop has, now or earlier.
pub(crate) fn next_home() -> u32 {
    static NEXT: Mutex<u32> = Mutex::new(0);
    let mut next = NEXT.lock().expect("nothing panics under the lock");
    *next += 1;
    *next
}
