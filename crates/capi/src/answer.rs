//! Handlers that answer at once, within a turn of the loop that a program drives.

use core::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use petasos::rt::{self, MethodKind, ServiceRef};
use petasos::untyped::{Payload, Service};
use petasos::{Code, Msg, Request, Response, Status};

use crate::bytes::petasos_slice;
use crate::failure::{PETASOS_OK, guarded, petasos_code};
use crate::pointer;

/// A call that a handler of a petasos_loop answers. Valid until the handler returns. Since version
/// 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_request {
    /// The called service.
    pub service: petasos_slice,
    /// The called method, without its service.
    pub method: petasos_slice,
    /// The request's message.
    pub message: petasos_slice,
    /// The remaining timeout, in microseconds; 0 for no limit.
    pub timeout_us: u64,
}

/// The place for a handler's answer. Valid until the handler returns. Since version 4.
pub struct petasos_answer {
    given: Option<Result<Msg<Payload>, Status>>,
}

/// A handler of a petasos_loop. It runs within petasos_loop_turn, on that thread, and gives its
/// answer with petasos_answer_message or petasos_answer_failure before it returns. It must not call
/// functions of its loop.
pub type petasos_handle = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        call: *const petasos_request,
        answer: *mut petasos_answer,
    ),
>;

/// What handles the calls of a petasos_loop. Since version 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_handler {
    /// The function to call.
    pub handle: petasos_handle,
    /// Passed to the function. Must be valid until the loop is freed.
    pub context: *mut c_void,
}

// SAFETY: services are asked to be usable from any thread, but a `petasos_loop` has its handlers
// called by its own turns only, and these belong to one thread (`driven`).
unsafe impl Send for petasos_handler {}
// SAFETY: as above.
unsafe impl Sync for petasos_handler {}

impl petasos_handler {
    fn answer(
        &self,
        (info, method): (&ServiceRef, u16),
        request: &Request<Payload>,
    ) -> Result<Response<Payload>, Status> {
        let message = request.to_bytes()?;
        let timeout = request.timeout().unwrap_or(Duration::ZERO).as_micros();
        let asked = petasos_request {
            service: petasos_slice::of(info.name().as_bytes()),
            method: petasos_slice::of(info.method(method).name.as_bytes()),
            message: petasos_slice::of(&message),
            timeout_us: u64::try_from(timeout).unwrap_or(u64::MAX),
        };
        let mut answer = petasos_answer { given: None };
        if let Some(handle) = self.handle {
            // SAFETY: the program said that the function may be called with this context; what else
            // is passed lives until it returns.
            unsafe { handle(self.context, &raw const asked, &raw mut answer) }
        }
        let none = || Err(Status::internal("the handler gave no answer"));
        answer.given.unwrap_or_else(none).map(Response::new)
    }
}

/// A service whose unary methods a program's function answers.
pub(crate) struct Answering {
    service: Service,
    handler: Arc<petasos_handler>,
}

impl Answering {
    /// # Errors
    /// The service has methods with streams: the program's fault.
    pub(crate) fn new(service: Service, handler: petasos_handler) -> Result<Answering, Status> {
        let streams = service.info().methods().find(|method| method.kind != MethodKind::Unary);
        if let Some(name) = streams.map(|method| method.name.to_owned()) {
            let why = format!("`{name}` has streams: a loop's handlers answer unary methods only");
            return Err(Status::invalid_argument(why));
        }
        Ok(Answering { service, handler: Arc::new(handler) })
    }
}

impl rt::Service for Answering {
    fn info(&self) -> ServiceRef {
        self.service.info().clone()
    }

    fn methods(self, methods: &mut rt::Methods) {
        let info = self.service.info();
        for method in info.methods() {
            let (info, index) = (info.clone(), method.index);
            let call = move |handler: Arc<petasos_handler>, request: Request<Payload>| {
                let info = info.clone();
                async move {
                    let answer = handler.answer((&info, index), &request);
                    (handler, answer)
                }
            };
            methods.unary(index, &self.handler, call);
        }
    }
}

/// Answers a call with a message, which is copied. A later answer replaces an earlier one.
/// PETASOS_INVALID_ARGUMENT if the bytes are no message. Since version 4.
///
/// # Safety
/// The answer is valid, and `length` bytes are at `message`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_answer_message(
    answer: *mut petasos_answer,
    message: *const u8,
    length: usize,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (answer, message) = unsafe { place(answer, message, length)? };
        answer.given = Some(Ok(Payload::from_bytes(message)?));
        Ok(PETASOS_OK)
    })
}

/// Answers a call with one of gRPC's codes but PETASOS_OK, and a message for people, which is
/// copied. A later answer replaces an earlier one. Since version 4.
///
/// # Safety
/// The answer is valid, and `length` bytes are at `message`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_answer_failure(
    answer: *mut petasos_answer,
    code: petasos_code,
    message: *const u8,
    length: usize,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (answer, message) = unsafe { place(answer, message, length)? };
        let text = String::from_utf8_lossy(message).into_owned();
        let code = u32::try_from(code).map(Code::from_number).unwrap_or(Code::Ok);
        if code == Code::Ok {
            return Err(Status::invalid_argument("a failure has one of gRPC's codes but 0"));
        }
        answer.given = Some(Err(Status::new(code, text)));
        Ok(PETASOS_OK)
    })
}

/// # Safety
/// The answer is null or valid, and `length` bytes are at `message`.
unsafe fn place<'a>(
    answer: *mut petasos_answer,
    message: *const u8,
    length: usize,
) -> Result<(&'a mut petasos_answer, &'a [u8]), Status> {
    // SAFETY: the caller's promises.
    let answer = unsafe { answer.as_mut() }.ok_or_else(|| pointer::null("the answer"))?;
    // SAFETY: as above.
    Ok((answer, unsafe { pointer::slice(message, length)? }))
}
