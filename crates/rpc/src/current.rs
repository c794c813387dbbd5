//! The call to which the code that runs on this thread belongs.
//!
//! A thread has a loop, or polls a call's handler as a worker, or does neither. A loop registers
//! itself once, when it is created. It knows by itself which handler it polls, so its calls pay
//! nothing here. Questions from other threads go to the loop by its number.

use core::cell::Cell;
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use petasos_base::{Clock, Time};
use petasos_endpoint::ServerSessionId;

use crate::cancelled::CancelState;
use crate::peer::Peer;

/// What a thread's loop knows about the calls in its handlers.
pub trait LoopContext {
    /// The loop's number.
    fn number(&self) -> u32;
    /// The loop's clock.
    fn clock(&self) -> &Clock;
    /// The deadline of the call whose handler the loop is polling.
    fn deadline(&self) -> Time;
    /// The time of the turn.
    fn now(&self) -> Time;
    /// The state that shows the end of the call whose handler the loop is polling, if it polls one.
    fn watch(&self) -> Option<Arc<CancelState>>;
}

thread_local! {
    /// The loop of this thread.
    static LOOP: Cell<Option<&'static dyn LoopContext>> = const { Cell::new(None) };
    /// The deadline of the call whose handler this thread polls outside of a loop.
    static DEADLINE: Cell<Time> = const { Cell::new(Time::NEVER) };
}

/// Sets or clears the loop of this thread.
pub fn set_loop(context: Option<&'static dyn LoopContext>) {
    LOOP.set(context);
}

/// Whether this is the thread of the loop with this number.
pub fn is_in_loop(number: u32) -> bool {
    LOOP.get().is_some_and(|context| context.number() == number)
}

/// Polls a handler outside of a loop; its call is over at `deadline`.
pub fn with_deadline<R>(deadline: Time, poll: impl FnOnce() -> R) -> R {
    let result = catch_with_deadline(deadline, poll);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Like [`with_deadline`]; a panic is caught and returned.
pub fn catch_with_deadline<R>(deadline: Time, poll: impl FnOnce() -> R) -> std::thread::Result<R> {
    let outer = DEADLINE.replace(deadline);
    let result = catch_unwind(AssertUnwindSafe(poll));
    DEADLINE.set(outer);
    result
}

/// The deadline, by the system's clock, of the call in whose handler this runs.
pub fn deadline() -> Time {
    match LOOP.get() {
        Some(context) if matches!(context.clock(), Clock::System(_)) => context.deadline(),
        // Virtual time stands still while a handler runs, and no other thread has it.
        Some(_) => Time::NEVER,
        None => DEADLINE.get(),
    }
}

/// The time left for the call in whose handler this runs (R10).
pub fn time_left() -> Option<Duration> {
    let (deadline, now) = match LOOP.get() {
        Some(context) => (context.deadline(), context.now()),
        None => match DEADLINE.get() {
            Time::NEVER => return None,
            deadline => (deadline, Clock::system().now()),
        },
    };
    (deadline != Time::NEVER).then(|| deadline - now)
}

/// The time, by the clock of this thread's loop if it has one.
pub fn now() -> Time {
    match LOOP.get() {
        Some(context) => context.clock().now(),
        None => Clock::system().now(),
    }
}

/// The state that shows the end of the call whose handler loop `number` is polling, if that is this
/// thread's loop.
pub fn watch(number: u32) -> Option<Arc<CancelState>> {
    LOOP.get().filter(|context| context.number() == number)?.watch()
}

/// Finds the peer of a session of the loop with this number. Called on any thread.
type PeerOf = fn(u32, ServerSessionId) -> Option<Peer>;

static PEER_OF: OnceLock<PeerOf> = OnceLock::new();

/// Sets how the peers of sessions are found.
pub fn set_peer_of(peer_of: PeerOf) {
    // Each loop sets the same function.
    let _ = PEER_OF.set(peer_of);
}

/// The peer of a loop's session; `None` once the loop or the session is gone.
pub fn peer(number: u32, session: ServerSessionId) -> Option<Peer> {
    PEER_OF.get()?(number, session)
}
