//! Runs a loop as a task of a Tokio runtime.

use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, Sleep};

use super::Runtime;
use super::turn::has_work;

/// How many turns run before other tasks of the runtime get a chance.
const TURNS_MAX: u32 = 64;

impl Runtime {
    /// A future that turns the loop until it is dropped; see `Loop::drive`.
    pub async fn drive(runtime: Rc<Runtime>) -> io::Error {
        let descriptor = runtime.descriptor();
        match descriptor.and_then(register) {
            Ok(descriptor) => turn_forever(&runtime, &descriptor).await,
            Err(error) => error,
        }
    }
}

/// `AsyncFd::new`'s successor is unsafe: the descriptor must stay the same until it is
/// deregistered. An `OwnedFd` ensures that.
#[allow(deprecated, reason = "an `OwnedFd` keeps its promise without unsafe code here")]
fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}

async fn turn_forever(runtime: &Rc<Runtime>, descriptor: &AsyncFd<OwnedFd>) -> io::Error {
    let _driver = Driver { runtime };
    loop {
        let wait = runtime.turn_ready(TURNS_MAX);
        if wait == Some(Duration::ZERO) {
            tokio::task::yield_now().await;
            continue;
        }
        let sleep = wait.map(|wait| tokio::time::sleep_until(Instant::now() + wait));
        let mut sleep = pin!(sleep);
        let rest = Rest { runtime, descriptor, sleep: sleep.as_mut() };
        if let Err(error) = rest.await {
            return error;
        }
    }
}

/// Removes the driver's waker when the driver is dropped.
struct Driver<'a> {
    runtime: &'a Runtime,
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let earlier = self.runtime.local.driver.borrow_mut().take();
        drop(earlier);
    }
}

/// Waits until the descriptor is readable, a timer is due, or futures ask for a turn.
struct Rest<'a> {
    runtime: &'a Runtime,
    descriptor: &'a AsyncFd<OwnedFd>,
    sleep: Pin<&'a mut Option<Sleep>>,
}

impl Future for Rest<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let waker = cx.waker().clone();
        let earlier = self.runtime.local.driver.borrow_mut().replace(waker);
        drop(earlier);
        if has_work(self.runtime.local) {
            return Poll::Ready(Ok(()));
        }
        if let Some(sleep) = self.sleep.as_mut().as_pin_mut()
            && sleep.poll(cx).is_ready()
        {
            return Poll::Ready(Ok(()));
        }
        match self.descriptor.poll_read_ready(cx) {
            Poll::Ready(Ok(mut ready)) => {
                ready.clear_ready();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}
