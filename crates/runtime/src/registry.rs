//! The loops of the process, for futures that are dropped on other threads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use petasos_managed::Buffer;
use petasos_rpc::current;

use super::shared::{Command, Shared};

/// The loops of the process, by number.
static LOOPS: Mutex<Option<HashMap<u32, Arc<Shared>>>> = Mutex::new(None);

/// Adds a loop.
pub(crate) fn add(shared: Arc<Shared>) {
    current::set_peer_of(|loop_id, session| shared_of(loop_id)?.client(session));
    let mut loops = LOOPS.lock().expect("nothing panics under the lock");
    loops.get_or_insert_default().insert(shared.loop_id, shared);
}

/// Removes a loop that has ended.
pub(crate) fn remove(loop_id: u32) {
    let mut loops = LOOPS.lock().expect("nothing panics under the lock");
    loops.as_mut().and_then(|loops| loops.remove(&loop_id));
}

/// Sends a command to a loop on any thread. If the loop is gone, the command is declined.
pub fn send(loop_id: u32, command: Command) {
    match shared_of(loop_id) {
        Some(shared) => shared.send(command),
        None => command.decline(),
    }
}

/// Memory that the managed service of a loop reads; see `ProgramBuffers::allocate`.
pub fn buffer(loop_id: u32, bytes: usize) -> Option<Buffer> {
    shared_of(loop_id)?.buffers()?.allocate(bytes)
}

/// The part of a loop that other threads use, if a loop with this number still exists.
pub(crate) fn shared_of(loop_id: u32) -> Option<Arc<Shared>> {
    let loops = LOOPS.lock().expect("nothing panics under the lock");
    loops.as_ref().and_then(|loops| loops.get(&loop_id)).cloned()
}

/// A number that no other loop has or has had.
pub(crate) fn next_loop_id() -> u32 {
    static NEXT: Mutex<u32> = Mutex::new(0);
    let mut next = NEXT.lock().expect("nothing panics under the lock");
    *next += 1;
    *next
}
