//! A worker method: its handler, the pool that runs it, and the mailbox for its answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use petasos_buf::MsgBuf;
use petasos_wire::RejectCode;

use crate::handler::RequestHandle;
use crate::mail::{Mail, WorkerAnswer};
use crate::mailbox::Mailbox;
use crate::worker_pool::WorkerPool;

/// Answers up to this length are copied into the slot's preallocated response.
pub(crate) const COPIED_BYTES_MAX: usize = 4096;

/// A request, as a worker sees it.
#[derive(Clone, Copy, Debug)]
pub struct WorkerRequest<'a> {
    /// The method that was called.
    pub method: u16,
    /// The request's bytes.
    pub payload: &'a [u8],
}

/// Runs on a worker thread for each request of a method. An error declines to answer, with that
/// reason; a panic answers [`RejectCode::HandlerFailed`].
pub type WorkerHandler = dyn Fn(WorkerRequest<'_>) -> Result<MsgBuf, RejectCode> + Send + Sync;

/// One method's entry in the endpoint.
pub(crate) struct WorkerMethod {
    pub(crate) pool: WorkerPool,
    pub(crate) handler: Arc<WorkerHandler>,
    pub(crate) answer_to: Arc<Mailbox<Mail>>,
}

/// A request to be run by a worker.
pub(crate) struct WorkerCall {
    pub(crate) handle: RequestHandle,
    pub(crate) method: u16,
    pub(crate) request: MsgBuf,
}

impl WorkerMethod {
    /// Runs `call` on a thread of the pool, or returns it if too many wait for one.
    pub(crate) fn submit(&self, call: WorkerCall) -> Result<(), WorkerCall> {
        let (handler, answer_to) = (self.handler.clone(), self.answer_to.clone());
        self.pool.submit(call, |call| async move { answer(call, &*handler, &answer_to) })
    }
}

/// Runs the handler on a worker's thread.
fn answer(call: WorkerCall, handler: &WorkerHandler, answer_to: &Mailbox<Mail>) {
    let WorkerCall { handle, method, request } = call;
    // A panicking handler can only damage its own state; the pool shares none with it.
    let run = || handler(WorkerRequest { method, payload: &request });
    let result = catch_unwind(AssertUnwindSafe(run));
    let result = result.unwrap_or(Err(RejectCode::HandlerFailed)).map(in_pool_class);
    // If the endpoint is gone, so is the call.
    let _ = answer_to.post(Mail::Answer(Box::new(WorkerAnswer { handle, request, result })));
}

/// Prepares a long answer for the endpoint's pool, whose buffers have capacities of powers of two.
/// If it must be copied for that, the copy happens here and not in the loop.
fn in_pool_class(answer: MsgBuf) -> MsgBuf {
    if answer.len() <= COPIED_BYTES_MAX || answer.capacity().is_power_of_two() {
        return answer;
    }
    let mut copy = MsgBuf::with_capacity(answer.len().next_power_of_two());
    copy.copy_from(&answer);
    copy
}
