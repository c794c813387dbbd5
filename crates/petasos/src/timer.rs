//! Waiting for a call's deadline before the call has begun, wherever its channel keeps time.

use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use petasos_call::Status;

use crate::channel::Transport;
use crate::home::away::Away;
use crate::home::shared::Shared;
use crate::home::timers;

/// Who keeps the time of a channel's calls.
#[derive(Clone)]
pub(crate) enum Timekeeper {
    /// The channel's loop.
    Loop(Arc<Shared>),
    /// The runtime that its connections are in.
    #[cfg(feature = "grpc")]
    Runtime(tokio::runtime::Handle),
}

impl Timekeeper {
    pub(crate) fn of(transport: &Transport) -> Timekeeper {
        match transport {
            Transport::Datagrams(shared) => Timekeeper::Loop(shared.home.clone()),
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => Timekeeper::Runtime(channel.runtime().clone()),
        }
    }

    /// What is late after so long.
    pub(crate) fn start(&self, timeout: Duration) -> Timer {
        match self {
            Timekeeper::Loop(home) => Timer::Loop(timers::start(home, timeout)),
            #[cfg(feature = "grpc")]
            Timekeeper::Runtime(runtime) => {
                let _context = runtime.enter();
                Timer::Runtime(Box::pin(tokio::time::sleep(timeout)))
            }
        }
    }
}

/// A time that comes.
pub(crate) enum Timer {
    Loop(Arc<Away>),
    #[cfg(feature = "grpc")]
    Runtime(core::pin::Pin<Box<tokio::time::Sleep>>),
}

impl Timer {
    /// What a call fails with that waits for longer. Not polled again then.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        match self {
            Timer::Loop(away) => match away.poll(cx.waker()) {
                Some(outcome) => Poll::Ready(outcome.expect_err("a timer brings nothing")),
                None => Poll::Pending,
            },
            #[cfg(feature = "grpc")]
            Timer::Runtime(sleep) => {
                sleep.as_mut().poll(cx).map(|()| petasos_call::Failure::Timeout.status())
            }
        }
    }
}
