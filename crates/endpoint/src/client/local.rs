//! The client for the loop's own thread.

use std::cell::{RefCell, RefMut};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_buf::MsgBuf;

use super::remote::{CallFuture, prepare};
use crate::call::CallSettings;
use crate::endpoint::Endpoint;
use crate::mail::Mail;
use crate::mailbox::Mailbox;
use crate::sessions::SessionId;

/// An endpoint together with futures on its own thread. Not `Send`. Clones are the same endpoint.
///
/// [`LocalClient::block_on`] turns the loop while its future waits; several calls run at once if
/// the future joins them. Where another executor polls (a single-threaded Tokio runtime, say), let
/// one of its tasks drive the loop: see [`Endpoint::run_ready`].
pub struct LocalClient<S> {
    endpoint: Rc<RefCell<Endpoint<S>>>,
    mailbox: Arc<Mailbox<Mail>>,
}

impl<S> Clone for LocalClient<S> {
    fn clone(&self) -> LocalClient<S> {
        LocalClient { endpoint: self.endpoint.clone(), mailbox: self.mailbox.clone() }
    }
}

impl<S> LocalClient<S> {
    /// A client that owns `endpoint`.
    ///
    /// # Errors
    /// The system's, if it gives no descriptor for the endpoint's mailbox.
    pub fn new(mut endpoint: Endpoint<S>) -> io::Result<LocalClient<S>> {
        let mailbox = endpoint.cx.core.outside.open_mailbox()?;
        Ok(LocalClient { endpoint: Rc::new(RefCell::new(endpoint)), mailbox })
    }

    /// The endpoint. Do not keep the borrow across an `await`.
    ///
    /// # Panics
    /// If it is borrowed already: inside of a handler or continuation, use its context instead.
    pub fn endpoint(&self) -> RefMut<'_, Endpoint<S>> {
        self.endpoint.borrow_mut()
    }

    /// Calls `method` with `request` (a [`MsgBuf`], or a slice, which is copied).
    pub fn call(&self, session: SessionId, method: u16, request: impl Into<MsgBuf>) -> CallFuture {
        self.call_with(session, method, request, CallSettings::default())
    }

    /// [`LocalClient::call`] with a timeout and other settings of the one call.
    pub fn call_with(
        &self,
        session: SessionId,
        method: u16,
        request: impl Into<MsgBuf>,
        settings: CallSettings,
    ) -> CallFuture {
        let (call, future) = prepare(&self.mailbox, session, method, request.into(), settings);
        match self.endpoint.try_borrow_mut() {
            Ok(mut endpoint) => {
                endpoint.context().start_async(*call);
                if endpoint.cx.core.outside.external {
                    // Whoever drives the loop sleeps on its descriptor, or is about to.
                    self.mailbox.wake();
                }
            }
            // The loop is turning: this is a handler. The call starts with the next turn.
            // A mailbox closes with its endpoint only, which is here.
            Err(_) => drop(self.mailbox.post(Mail::Call(call))),
        }
        future
    }

    /// Runs `future` to its end, turning the loop whenever it waits.
    ///
    /// # Panics
    /// If the endpoint is borrowed, so also inside of a handler or continuation.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let loop_waker =
            Arc::new(LoopWaker { is_woken: AtomicBool::new(true), mailbox: self.mailbox.clone() });
        let waker = Waker::from(loop_waker.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            // Acquire: pairs with the release of `wake`, so that the future sees why it was woken.
            if loop_waker.is_woken.swap(false, Ordering::Acquire)
                && let Poll::Ready(output) = future.as_mut().poll(&mut context)
            {
                return output;
            }
            self.endpoint().run(|_, _| loop_waker.is_woken.load(Ordering::Relaxed));
        }
    }
}

/// The waker of [`LocalClient::block_on`]: it also wakes the loop from its sleep.
struct LoopWaker {
    is_woken: AtomicBool,
    mailbox: Arc<Mailbox<Mail>>,
}

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with the acquire in `block_on`.
        self.is_woken.store(true, Ordering::Release);
        self.mailbox.wake();
    }
}
