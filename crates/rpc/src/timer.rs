//! Waiting for a call's deadline before the call has begun, wherever its channel keeps time.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use petasos_call::Status;

/// What a call fails with that has waited too long, once it has.
pub type Timer = Pin<Box<dyn Future<Output = Status> + Send>>;

/// Who keeps the time of a channel's calls: its loop, or the runtime of its connections.
pub trait Timekeeper: Send + Sync {
    /// What is ready after so long.
    fn start(&self, timeout: Duration) -> Timer;
}
