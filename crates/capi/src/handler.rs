//! Operations of handlers.

use std::task::Poll;

use petasos::{Code, Metadata, Response, Status};

use crate::bytes::petasos_slice;
use crate::call::petasos_call;
use crate::failure::{PETASOS_OK, guarded, guarded_or, petasos_code};
use crate::handling::{Handling, Outcome};
use crate::metadata::{copied, petasos_metadata};
use crate::notifier::{For, petasos_waker};
use crate::parts::{Parts, Receiving, Sending};
use crate::{pointer, wait};

fn look_cancelled(handling: &Handling) -> Poll<Result<petasos_code, Status>> {
    match handling.is_cancelled() {
        true => Poll::Ready(Ok(PETASOS_OK)),
        false => Poll::Pending,
    }
}

/// For handlers: the called service. Always valid; empty for a caller's call.
///
/// # Safety
/// The call is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_service(call: *const petasos_call) -> petasos_slice {
    // SAFETY: the caller's promise.
    let call = unsafe { call.as_ref() };
    let handling = call.and_then(|call| call.handling().ok());
    petasos_slice::of(handling.map_or(&[], |known| known.asked.service.name().as_bytes()))
}

/// For handlers: the called method, without its service. Always valid.
///
/// # Safety
/// The call is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_method(call: *const petasos_call) -> petasos_slice {
    // SAFETY: the caller's promise.
    let call = unsafe { call.as_ref() };
    let handling = call.and_then(|call| call.handling().ok());
    let method = handling.map(|known| known.asked.service.method(known.asked.method));
    petasos_slice::of(method.map_or(&[], |method| method.name.as_bytes()))
}

/// For handlers: the remaining timeout when the call arrived, in microseconds; 0 for no limit.
///
/// # Safety
/// The call is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_timeout_us(call: *const petasos_call) -> u64 {
    // SAFETY: the caller's promise.
    let call = unsafe { call.as_ref() };
    let timeout = call.and_then(|call| call.handling().ok()?.asked.timeout);
    timeout.map_or(0, |timeout| u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX).max(1))
}

/// For handlers: sends the initial metadata now; otherwise they are sent with the first message. At
/// most once, before messages.
///
/// # Safety
/// The call is valid, and so are the metadata.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_send_metadata(
    call: *const petasos_call,
    metadata: *const petasos_metadata,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, metadata) = unsafe { (pointer::shared(call, "the call")?, copied(metadata)) };
        call.handling()?;
        let mut parts = call.parts();
        match &mut parts.sending {
            Sending::Idle(sender) => {
                *sender.metadata_mut() = metadata;
                sender.send_metadata();
            }
            Sending::One(_) => parts.head = metadata,
            Sending::Over(Err(status)) => return Err(status.clone()),
            _ => return Err(Status::failed_precondition("messages were sent already")),
        }
        Ok(PETASOS_OK)
    })
}

/// For handlers: ends the call with PETASOS_OK or another of gRPC's codes. For other codes,
/// `message` is a message for people with `message_length` bytes, and `details` a serialized
/// `google.rpc.Status`; both may be empty. The trailing metadata may be null. PETASOS_CANCELLED if
/// nobody waits for the call any more. The call must still be freed.
///
/// # Safety
/// The call is valid, as many bytes as given are at `message` and `details`, and the metadata are
/// null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_finish(
    call: *const petasos_call,
    code: petasos_code,
    message: *const u8,
    message_length: usize,
    details: *const u8,
    details_length: usize,
    trailers: *const petasos_metadata,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (call, message, details, trailers) = unsafe {
            (
                pointer::shared(call, "the call")?,
                pointer::slice(message, message_length)?,
                pointer::slice(details, details_length)?,
                copied(trailers),
            )
        };
        let handling = call.handling()?;
        let mut parts = call.parts();
        if parts.is_sending() {
            return Err(Status::failed_precondition("a message is still under way"));
        }
        let outcome = match u32::try_from(code).map(Code::from_number) {
            Ok(Code::Ok) => well(&mut parts, trailers),
            Ok(code) => {
                let text = String::from_utf8_lossy(message).into_owned();
                let status = Status::new(code, text).with_details(details.to_vec());
                Err(status.with_metadata(trailers))
            }
            Err(_) => return Err(Status::invalid_argument(format!("{code} ends no call"))),
        };
        parts.receiving = Receiving::Over(Ok(()));
        parts.sending = Sending::Over(Ok(()));
        drop(parts);
        match handling.finish(outcome) {
            true => Ok(PETASOS_OK),
            false => Err(Status::cancelled("nobody waits for the answer")),
        }
    })
}

/// The outcome of a successful call.
fn well(parts: &mut Parts, trailers: Metadata) -> Outcome {
    match &mut parts.sending {
        Sending::One(message) => {
            let none = || Status::internal("the handler gave no response");
            let mut response = Response::new(message.take().ok_or_else(none)?);
            *response.metadata_mut() = core::mem::take(&mut parts.head);
            *response.trailers_mut() = trailers;
            return Ok(Some(response));
        }
        Sending::Idle(sender) => *sender.trailers_mut() = trailers,
        // The call is over, and nobody gets the result.
        _ => {}
    }
    Ok(None)
}

/// For handlers: whether nobody waits for the call any more, or it has ended.
///
/// # Safety
/// The call is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_is_cancelled(call: *const petasos_call) -> bool {
    guarded_or(false, || {
        // SAFETY: the caller's promise.
        let call = unsafe { call.as_ref() };
        call.and_then(|call| call.handling().ok()).is_some_and(Handling::is_cancelled)
    })
}

/// For handlers: waits until petasos_call_is_cancelled returns true, and then returns PETASOS_OK.
///
/// # Safety
/// The call is valid, and the waker meets its requirements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_poll_cancelled(
    call: *const petasos_call,
    waker: petasos_waker,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let call = unsafe { pointer::shared(call, "the call")? };
        let handling = call.handling()?;
        wait::poll(call.notifier(), For::Cancelling, waker, |_| look_cancelled(handling))
    })
}
