//! Calls: operations of callers and handlers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use petasos::Status;
use petasos::untyped::Payload;

use crate::bytes::petasos_bytes;
use crate::failure::{PETASOS_END, PETASOS_OK, contained, guarded, petasos_code};
use crate::handling::Handling;
use crate::metadata::petasos_metadata;
use crate::notifier::{For, Notifier, petasos_waker};
use crate::parts::Parts;
use crate::{pointer, wait};

/// A call: a caller's, from petasos_call_start, or a handler's, from petasos_server_accept.
///
/// Any number of threads may use it, but only one at a time may send, and one at a time may
/// receive. Functions that can wait have two forms. One blocks the thread for at most `timeout_us`
/// microseconds (0 returns at once, a negative value waits without limit), and then returns
/// PETASOS_TIMED_OUT. The other, with `poll` in its name, never blocks. It returns PETASOS_PENDING
/// if there is nothing yet, and its waker is called once the program should call the function
/// again, which may be in vain. A waker replaces the previous one.
pub struct petasos_call {
    parts: Mutex<Parts>,
    notifier: Arc<Notifier>,
    /// The handler's part of the call.
    handling: Option<Handling>,
}

impl petasos_call {
    pub(crate) fn new(
        parts: Parts,
        notifier: Arc<Notifier>,
        handling: Option<Handling>,
    ) -> petasos_call {
        petasos_call { parts: Mutex::new(parts), notifier, handling }
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }

    /// The handler's part; an error for a caller's call.
    pub(crate) fn handling(&self) -> Result<&Handling, Status> {
        let none = || Status::failed_precondition("the call is not one to be handled");
        self.handling.as_ref().ok_or_else(none)
    }

    fn look_received(
        &self,
        cx: &mut Context<'_>,
        to: &mut petasos_bytes,
    ) -> Poll<Result<petasos_code, Status>> {
        let mut parts = self.parts();
        if parts.is_sending() {
            // Only the sender asks whether the message has left; this starts sending it.
            let _ = parts.poll_sent(cx);
        }
        let message = ready!(parts.poll_receive(cx))?;
        drop(parts);
        let Some(message) = message else { return Poll::Ready(Ok(PETASOS_END)) };
        *to = petasos_bytes::new(message.to_bytes()?);
        Poll::Ready(Ok(PETASOS_OK))
    }

    fn look_sent(&self, cx: &mut Context<'_>) -> Poll<Result<petasos_code, Status>> {
        self.parts().poll_sent(cx).map_ok(|()| PETASOS_OK)
    }

    fn look_head(
        &self,
        cx: &mut Context<'_>,
        to: &mut *mut petasos_metadata,
    ) -> Poll<Result<petasos_code, Status>> {
        let head = ready!(self.parts().poll_head(cx))?;
        *to = pointer::give(petasos_metadata::from(head));
        Poll::Ready(Ok(PETASOS_OK))
    }

    fn begin_send(&self, message: &[u8]) -> Result<(), Status> {
        self.parts().send(Payload::from_bytes(message)?)
    }
}

impl Drop for petasos_call {
    fn drop(&mut self) {
        self.notifier.clear();
    }
}

/// Starts to send a message, which is copied. PETASOS_FAILED_PRECONDITION if the previous message
/// is not sent yet, or if the method allows no message. A handler of a method with one response
/// also sends it with this function.
///
/// # Safety
/// The call is valid, and `length` bytes are at `message`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_begin_send(
    call: *const petasos_call,
    message: *const u8,
    length: usize,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, message) =
            unsafe { (pointer::shared(call, "the call")?, pointer::slice(message, length)?) };
        call.begin_send(message)?;
        Ok(PETASOS_OK)
    })
}

/// Waits until the next message can be sent: a sender is never far ahead of the receiver. Other
/// codes mean that the call is over.
///
/// # Safety
/// The call is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_wait_sent(
    call: *const petasos_call,
    timeout_us: i64,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let call = unsafe { pointer::shared(call, "the call")? };
        wait::block(&call.notifier, For::Sending, timeout_us, |cx| call.look_sent(cx))
    })
}

/// Like petasos_call_wait_sent, without blocking.
///
/// # Safety
/// The call is valid, and the waker meets its requirements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_poll_sent(
    call: *const petasos_call,
    waker: petasos_waker,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let call = unsafe { pointer::shared(call, "the call")? };
        wait::poll(&call.notifier, For::Sending, waker, |cx| call.look_sent(cx))
    })
}

/// Sends a message, and waits until the next one can be sent. After PETASOS_TIMED_OUT the message
/// is still being sent; use petasos_call_wait_sent to continue waiting.
///
/// # Safety
/// The call is valid, and `length` bytes are at `message`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_send(
    call: *const petasos_call,
    message: *const u8,
    length: usize,
    timeout_us: i64,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, message) =
            unsafe { (pointer::shared(call, "the call")?, pointer::slice(message, length)?) };
        call.begin_send(message)?;
        wait::block(&call.notifier, For::Sending, timeout_us, |cx| call.look_sent(cx))
    })
}

/// For callers: closes the sending direction. A message that is being sent is the last one.
///
/// # Safety
/// The call is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_close_send(call: *const petasos_call) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let call = unsafe { pointer::shared(call, "the call")? };
        if call.handling.is_some() {
            return Err(Status::failed_precondition("handlers end with petasos_call_finish"));
        }
        call.parts().close();
        call.notifier.notify();
        Ok(PETASOS_OK)
    })
}

/// Receives the next message; free it with petasos_bytes_free. Returns PETASOS_END after the last
/// one, which tells a caller that the call succeeded. Other codes are the status of the call.
///
/// # Safety
/// The call is valid, and `message` is writable; its previous content is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_receive(
    call: *const petasos_call,
    timeout_us: i64,
    message: *mut petasos_bytes,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, to) = unsafe { (pointer::shared(call, "the call")?, pointer::out(message)?) };
        wait::block(&call.notifier, For::Receiving, timeout_us, |cx| call.look_received(cx, to))
    })
}

/// Like petasos_call_receive, without blocking.
///
/// # Safety
/// As for petasos_call_receive, and the waker meets its requirements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_poll_receive(
    call: *const petasos_call,
    waker: petasos_waker,
    message: *mut petasos_bytes,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, to) = unsafe { (pointer::shared(call, "the call")?, pointer::out(message)?) };
        wait::poll(&call.notifier, For::Receiving, waker, |cx| call.look_received(cx, to))
    })
}

/// Waits for the initial metadata: for a caller, those of the server; for a handler, those of the
/// caller, which are available at once. Free them with petasos_metadata_free. Do not call this at
/// the same time as petasos_call_receive.
///
/// # Safety
/// The call is valid, and `metadata` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_metadata(
    call: *const petasos_call,
    timeout_us: i64,
    metadata: *mut *mut petasos_metadata,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, to) = unsafe { (pointer::shared(call, "the call")?, pointer::out(metadata)?) };
        wait::block(&call.notifier, For::Receiving, timeout_us, |cx| call.look_head(cx, to))
    })
}

/// Like petasos_call_metadata, without blocking.
///
/// # Safety
/// As for petasos_call_metadata, and the waker meets its requirements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_poll_metadata(
    call: *const petasos_call,
    waker: petasos_waker,
    metadata: *mut *mut petasos_metadata,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, to) = unsafe { (pointer::shared(call, "the call")?, pointer::out(metadata)?) };
        wait::poll(&call.notifier, For::Receiving, waker, |cx| call.look_head(cx, to))
    })
}

/// For callers: the trailing metadata of a successful call, once PETASOS_END was received. For a
/// failed call, petasos_last_error has them. Free them with petasos_metadata_free.
///
/// # Safety
/// The call is valid, and `metadata` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_trailers(
    call: *const petasos_call,
    metadata: *mut *mut petasos_metadata,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, to) = unsafe { (pointer::shared(call, "the call")?, pointer::out(metadata)?) };
        *to = pointer::give(petasos_metadata::from(call.parts().trailers.clone()));
        Ok(PETASOS_OK)
    })
}

/// Cancels a call: functions that wait for it return PETASOS_CANCELLED. If a handler cancels, its
/// caller gets this status, too.
///
/// # Safety
/// The call is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_cancel(call: *const petasos_call) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let call = unsafe { pointer::shared(call, "the call")? };
        call.parts().cancel();
        if let Some(handling) = &call.handling {
            handling.finish(Err(Status::cancelled("the server has given the call up")));
        }
        call.notifier.notify();
        Ok(PETASOS_OK)
    })
}

/// Frees a call, and cancels it if it is not over. Does nothing if it is null. None of its wakers
/// is called afterwards.
///
/// # Safety
/// It is null, or belongs to the program and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_free(call: *mut petasos_call) {
    contained(|| {
        // SAFETY: the caller's promise.
        unsafe { pointer::free(call) }
    });
}
