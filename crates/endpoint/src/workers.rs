//! Handlers that run on separate threads, because they take long or block.
//!
//! A request for a worker method is passed with its bytes to a [`WorkerPool`]: the buffer in which
//! it was assembled is moved; a single-packet request is copied out of the frame. The queue is
//! bounded: if it is full, a request is rejected as overloaded without having run. The answer comes
//! back as mail together with the request's buffer, which belongs to the loop's pool.
//!
//! In the handler table a worker method is an ordinary handler that passes the request on, so that
//! methods without workers pay nothing.

use std::io;
use std::sync::Arc;

use petasos_wire::RejectCode;

use crate::core::Context;
use crate::endpoint::Endpoint;
use crate::handler::{Payload, Request};
use crate::mail::WorkerAnswer;
use crate::worker_method::{COPIED_BYTES_MAX, WorkerCall, WorkerHandler, WorkerMethod};
use crate::worker_pool::WorkerPool;

impl<S> Endpoint<S> {
    /// Makes `handler`, run by the threads of `pool`, answer `method`, instead of an earlier
    /// handler.
    ///
    /// # Errors
    /// The system's, if it has no file descriptor for the endpoint's mailbox.
    pub fn register_worker(
        &mut self,
        method: u16,
        pool: &WorkerPool,
        handler: Arc<WorkerHandler>,
    ) -> io::Result<()> {
        let answer_to = self.cx.core.outside.open_mailbox()?;
        let entry = WorkerMethod { pool: pool.clone(), handler, answer_to };
        self.cx.core.outside.workers.insert(method, entry);
        self.register(method, pass_on);
        Ok(())
    }

    /// Sends a worker's answer.
    pub(crate) fn on_answer(&mut self, answer: WorkerAnswer) {
        let WorkerAnswer { handle, request, result } = answer;
        let context = self.context();
        context.free(request);
        match result {
            Err(code) => context.reject(handle, code),
            Ok(response) if response.len() <= COPIED_BYTES_MAX => {
                context.respond_with(handle, &response);
            }
            // The pool will take the answer's buffer back later, so one of its size has to be
            // counted as lent.
            Ok(response) => match context.alloc(response.capacity()) {
                Ok(_) => context.respond(handle, response),
                Err(_) => context.reject(handle, RejectCode::HandlerFailed),
            },
        }
    }
}

/// The handler of every worker method.
fn pass_on<S>(_: &mut S, cx: &mut Context<S>, request: Request<'_>) {
    let Request { handle, method, payload } = request;
    let request = match payload {
        Payload::Buffer(buf) => buf,
        Payload::Frame(bytes) => match cx.alloc(bytes.len()) {
            Ok(mut buf) => {
                buf.copy_from(bytes);
                buf
            }
            Err(_) => return cx.reject(handle, RejectCode::Overloaded),
        },
    };
    let entry = cx.core.outside.workers.get(&method).expect("a worker method has an entry");
    if let Err(call) = entry.submit(WorkerCall { handle, method, request }) {
        cx.free(call.request);
        cx.reject(call.handle, RejectCode::Overloaded);
    }
}
