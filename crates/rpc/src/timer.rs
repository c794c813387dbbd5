//! Waiting for a call's deadline before the call has begun, with the timer that its channel uses.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use petasos_call::Status;

/// A future that is ready when a call has waited too long, with the status that the call fails
/// with.
pub type Timer = Pin<Box<dyn Future<Output = Status> + Send>>;

/// The timer of a channel's calls: its loop, or the runtime of its connections.
pub trait Timekeeper: Send + Sync {
    /// A future that is ready after this time.
    fn start(&self, timeout: Duration) -> Timer;
}
