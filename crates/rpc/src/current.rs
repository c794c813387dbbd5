//! Which call the code that runs on this thread belongs to.
//!
//! A thread has a loop, or polls a call's handler as a worker, or neither. A loop says so once,
//! when it is made. It knows itself which of its handlers it polls, so its calls pay nothing here.
//! What is asked from other threads goes to the loop by its number.

use core::cell::Cell;
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use petasos_base::{Clock, Time};
use petasos_endpoint::ServerSessionId;

use crate::cancelled::CancelState;
use crate::peer::Peer;

/// The loop of a thread, as far as the calls in its handlers are concerned.
pub trait LoopContext {
    /// The loop's number.
    fn number(&self) -> u32;
    /// What it tells the time by.
    fn clock(&self) -> &Clock;
    /// When the call is over whose handler it polls.
    fn deadline(&self) -> Time;
    /// The time of the turn.
    fn now(&self) -> Time;
    /// What tells of the end of the call whose handler it polls, if it polls one.
    fn watch(&self) -> Option<Arc<CancelState>>;
}

thread_local! {
    /// The loop of this thread.
    static LOOP: Cell<Option<&'static dyn LoopContext>> = const { Cell::new(None) };
    /// When the call is over whose handler this thread polls outside of loops.
    static DEADLINE: Cell<Time> = const { Cell::new(Time::NEVER) };
}

/// This thread has a loop now, or none any more.
pub fn set_loop(context: Option<&'static dyn LoopContext>) {
    LOOP.set(context);
}

/// Whether this is the thread of the loop with this number.
pub fn is_in_loop(number: u32) -> bool {
    LOOP.get().is_some_and(|context| context.number() == number)
}

/// Polls a handler outside of loops, whose call is over at `deadline`.
pub fn with_deadline<R>(deadline: Time, poll: impl FnOnce() -> R) -> R {
    let result = catch_with_deadline(deadline, poll);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Likewise; a panic is given back.
pub fn catch_with_deadline<R>(deadline: Time, poll: impl FnOnce() -> R) -> std::thread::Result<R> {
    let outer = DEADLINE.replace(deadline);
    let result = catch_unwind(AssertUnwindSafe(poll));
    DEADLINE.set(outer);
    result
}

/// The deadline of the call in whose handler this runs, by the system's clock.
pub fn deadline() -> Time {
    match LOOP.get() {
        Some(context) if matches!(context.clock(), Clock::System(_)) => context.deadline(),
        // Virtual time stands still while a handler runs, and is nobody else's.
        Some(_) => Time::NEVER,
        None => DEADLINE.get(),
    }
}

/// What is left of the call in whose handler this runs (R10).
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

/// What tells of the end of the call whose handler a loop polls, if that is on this thread.
pub fn watch(number: u32) -> Option<Arc<CancelState>> {
    LOOP.get().filter(|context| context.number() == number)?.watch()
}

/// Finds who has a session of the loop with a number, on any thread.
type PeerOf = fn(u32, ServerSessionId) -> Option<Peer>;

static PEER_OF: OnceLock<PeerOf> = OnceLock::new();

/// Says how the peers of sessions are found.
pub fn set_peer_of(peer_of: PeerOf) {
    // Each loop says the same.
    let _ = PEER_OF.set(peer_of);
}

/// Who has a session of a loop; `None` once either is gone.
pub fn peer(number: u32, session: ServerSessionId) -> Option<Peer> {
    PEER_OF.get()?(number, session)
}
