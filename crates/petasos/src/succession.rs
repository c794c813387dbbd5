//! A program that is replaced by a newer process at the same address, while calls run.
//!
//! The old process shares the listener of its loop, the new one adopts it. When the new one can
//! answer, the old one hands over: callers open new sessions, which go to the new process, and give
//! those with the old one back when the calls in them are over. `petasosd` does this (ADR 20).

use std::io;
use std::net::TcpListener;

use petasos_runtime::{LoopConfig, LoopError, Runtime};

use crate::event_loop::Loop;

impl Loop {
    /// Like [`Loop::new`], at the listener of a process that this one succeeds, in place of
    /// [`LoopConfig::listen`]. It accepts nobody before [`Loop::accept`]: who connects waits.
    ///
    /// # Errors
    /// See [`LoopError`].
    pub fn adopt(config: LoopConfig, listener: TcpListener) -> Result<Loop, LoopError> {
        Runtime::adopt(config, listener).map(Loop::with)
    }

    /// Accepts connections at the adopted listener from now on.
    pub fn accept(&self) {
        self.runtime().accept();
    }

    /// Another descriptor of the loop's listener, for a process that succeeds this one. `None` if
    /// the loop does not listen, or has handed over.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn share_listener(&self) -> io::Result<Option<TcpListener>> {
        self.runtime().share_listener()
    }

    /// Leaves the loop's address to another process, and tells callers. The loop opens no sessions
    /// for them any more, and serves those that there are. Callers whose version knows nothing of
    /// successors hear that the process drains.
    pub fn hand_over(&self) {
        self.runtime().hand_over();
    }

    /// Refuses requests that come from now on, which callers may send elsewhere: for those that
    /// have not heard of a successor. What runs is finished.
    pub fn refuse_requests(&self) {
        self.runtime().refuse_requests();
    }

    /// How many sessions callers have with this loop. Those that know of a successor give theirs
    /// back when their calls are over.
    pub fn served_sessions(&self) -> usize {
        self.runtime().served_sessions()
    }

    /// Whether no caller waits for an answer of this loop.
    pub fn is_idle(&self) -> bool {
        self.runtime().is_idle()
    }
}
