//! Calls: what callers and handlers do with their two directions.

use std::ffi::c_char;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use petasos::rt::MethodKind;
use petasos::untyped::Payload;
use petasos::{Metadata, Request, Status};

use crate::bytes::petasos_bytes;
use crate::channel::petasos_client;
use crate::failure::{PETASOS_END, PETASOS_OK, contained, guarded, petasos_code};
use crate::handling::Handling;
use crate::metadata::{copied, petasos_metadata};
use crate::notifier::{For, Notifier, petasos_waker};
use crate::parts::{Parts, Receiving, Sending};
use crate::{pointer, wait};

/// A call: a caller's, from petasos_call_start, or one to be handled, from petasos_server_accept.
///
/// Any number of threads may use it, but one at a time sends, and one at a time receives. What can
/// wait comes in two forms. One blocks the thread, for at most `timeout_us` microseconds (0 only
/// looks, less waits for ever), and returns PETASOS_TIMED_OUT after that. The other, with `poll` in
/// its name, never blocks: it returns PETASOS_PENDING if there is nothing yet, and its waker is
/// called once it is time to call it again, perhaps in vain; a waker replaces that of the last
/// time.
pub struct petasos_call {
    parts: Mutex<Parts>,
    notifier: Arc<Notifier>,
    /// A handler's.
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

    /// A handler's side of it.
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
            // Whether it has left, only who sends asks; but it is on its way.
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

/// Calls a method, which is named without its service. The call is under way when this returns.
///
/// `request` is the only request of methods that take one, and empty for others, whose requests
/// follow with petasos_call_send. `timeout_us` is what the call may take, 0 for as long as the
/// channel lets it; `metadata` go with the request, and may be null. The call is to be freed with
/// petasos_call_free.
///
/// # Safety
/// The client is valid, the name ends with a zero, `length` bytes are at `request`, the metadata
/// are null or valid, and `call` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_start(
    client: *const petasos_client,
    method: *const c_char,
    request: *const u8,
    length: usize,
    timeout_us: u64,
    metadata: *const petasos_metadata,
    call: *mut *mut petasos_call,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, client, method, request, metadata) = unsafe {
            (
                pointer::out(call)?,
                pointer::shared(client, "the client")?,
                pointer::text(method, "the method's name")?,
                pointer::slice(request, length)?,
                copied(metadata),
            )
        };
        let timeout = (timeout_us > 0).then(|| Duration::from_micros(timeout_us));
        let parts = begin(client, method, request, timeout, metadata)?;
        *to = pointer::give(petasos_call::new(parts, Arc::default(), None));
        Ok(PETASOS_OK)
    })
}

fn begin(
    client: &petasos_client,
    method: &str,
    request: &[u8],
    timeout: Option<Duration>,
    metadata: Metadata,
) -> Result<Parts, Status> {
    let client = client.get();
    let unknown = || Status::unimplemented(format!("the service has no method `{method}`"));
    let kind = client.method(method).ok_or_else(unknown)?.kind;
    let none = "the kind was looked up";
    if matches!(kind, MethodKind::Unary | MethodKind::ServerStreaming) {
        let mut asked = Request::new(Payload::from_bytes(request)?);
        *asked.metadata_mut() = metadata;
        if let Some(timeout) = timeout {
            asked = asked.with_timeout(timeout);
        }
        let receiving = match kind {
            MethodKind::Unary => Receiving::Unary(client.unary(method, asked).expect(none)),
            _ => Receiving::OpeningOne(client.server_streaming(method, asked).expect(none)),
        };
        return Ok(Parts::new(receiving, Sending::Over(Ok(()))));
    }
    if !request.is_empty() {
        return Err(Status::invalid_argument("the method takes its requests as a stream"));
    }
    let opening = client.open(method).map_err(|error| Status::internal(error.to_string()))?;
    let mut opening = opening.with_all_metadata(metadata);
    if let Some(timeout) = timeout {
        opening = opening.with_timeout(timeout);
    }
    Ok(Parts::new(Receiving::OpeningBoth(opening), Sending::Opening))
}

/// Begins to send a message; it is copied. PETASOS_FAILED_PRECONDITION if the one before is still
/// under way, or if there is nothing to send. A handler of a method with one response sends it so.
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

/// Waits until there is room for the next message: a sender is never far ahead of who reads. Other
/// codes say that the call is over.
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

/// petasos_call_wait_sent without blocking.
///
/// # Safety
/// The call is valid, and the waker is as it says.
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

/// Sends a message and waits until there is room for the next. After PETASOS_TIMED_OUT the message
/// is still under way, and petasos_call_wait_sent goes on waiting.
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

/// A caller's: no more messages follow the one that may be under way.
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

/// Receives the next message, to be freed with petasos_bytes_free. PETASOS_END behind the last:
/// to a caller it says that the call went well. Other codes are how the call ended.
///
/// # Safety
/// The call is valid, and `message` may be written to; what it held is not freed.
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

/// petasos_call_receive without blocking.
///
/// # Safety
/// As of petasos_call_receive; the waker is as it says.
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

/// Waits for the initial metadata: to a caller the server's, to a handler the caller's, which are
/// there at once. To be freed with petasos_metadata_free. It waits in place of
/// petasos_call_receive.
///
/// # Safety
/// The call is valid, and `metadata` may be written to.
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

/// petasos_call_metadata without blocking.
///
/// # Safety
/// As of petasos_call_metadata; the waker is as it says.
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

/// A caller's: the trailing metadata of a call that went well, once PETASOS_END was received; those
/// of others are with petasos_last_error. To be freed with petasos_metadata_free.
///
/// # Safety
/// The call is valid, and `metadata` may be written to.
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

/// Gives a call up: who waits for it gets PETASOS_CANCELLED. A handler's caller gets that, too.
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

/// Frees a call, and gives it up if it is not over; nothing if it is null. No waker of it is called
/// afterwards.
///
/// # Safety
/// It is null, or belongs to the program and is used by nobody.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_free(call: *mut petasos_call) {
    contained(|| {
        // SAFETY: the caller's promise.
        unsafe { pointer::free(call) }
    });
}
