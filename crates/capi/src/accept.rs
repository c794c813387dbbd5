//! The queue of incoming calls for the program.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use petasos::rt::{self, MethodKind, ServiceRef};
use petasos::untyped::{Payload, Service};
use petasos::{Metadata, Request, Response, Sender, Status, Streaming};

use crate::call::petasos_call;
use crate::failure::{PETASOS_END, PETASOS_OK, petasos_code};
use crate::handling::{Asked, Handling, Outcome};
use crate::notifier::Notifier;
use crate::parts::{Parts, Receiving, Sending};
use crate::pointer;

/// The queue between the server's handlers and the program.
pub(crate) struct Accepting {
    state: Mutex<State>,
    pub(crate) notifier: Arc<Notifier>,
    calls_max: usize,
}

#[derive(Default)]
struct State {
    calls: VecDeque<petasos_call>,
    is_closed: bool,
}

impl Accepting {
    pub(crate) fn new(calls_max: usize) -> Accepting {
        Accepting { state: Mutex::default(), notifier: Arc::default(), calls_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the queue, and drops the waiting calls.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let calls = core::mem::take(&mut state.calls);
        drop(state);
        drop(calls);
        self.notifier.notify();
    }

    fn put(&self, call: petasos_call) -> Result<(), Status> {
        let mut state = self.state();
        let full = state.calls.len() >= self.calls_max;
        if full || state.is_closed {
            drop(state);
            return Err(match full {
                true => Status::resource_exhausted("too many calls wait for the server's program"),
                false => Status::unavailable("the server has ended"),
            });
        }
        state.calls.push_back(call);
        drop(state);
        self.notifier.notify();
        Ok(())
    }

    /// The next call whose caller still waits.
    pub(crate) fn look(&self, to: &mut *mut petasos_call) -> Poll<Result<petasos_code, Status>> {
        loop {
            let mut state = self.state();
            let Some(call) = state.calls.pop_front() else {
                let is_closed = state.is_closed;
                return if is_closed { Poll::Ready(Ok(PETASOS_END)) } else { Poll::Pending };
            };
            drop(state);
            if call.handling().is_ok_and(|handling| !handling.is_cancelled()) {
                *to = pointer::give(call);
                return Poll::Ready(Ok(PETASOS_OK));
            }
        }
    }

    /// Passes a call to the program, and waits for the outcome.
    async fn handle(&self, asked: Asked, metadata: Metadata, mut parts: Parts) -> Outcome {
        parts.metadata = metadata;
        let notifier = Arc::<Notifier>::default();
        let (handling, waiting) = Handling::new(asked, notifier.clone());
        self.put(petasos_call::new(parts, notifier, Some(handling)))?;
        waiting.await
    }

    async fn unary(
        &self,
        mut asked: Asked,
        request: Request<Payload>,
    ) -> Result<Response<Payload>, Status> {
        asked.timeout = request.timeout();
        let metadata = request.metadata().clone();
        let parts = Parts::new(Receiving::One(request.into_message()), Sending::One(None));
        let response = self.handle(asked, metadata, parts).await?;
        response.ok_or_else(|| Status::internal("the handler gave no response"))
    }

    async fn streams(
        &self,
        mut asked: Asked,
        requests: Streaming<Payload>,
        responses: Sender<Payload>,
    ) -> Result<(), Status> {
        asked.timeout = requests.timeout();
        let metadata = requests.metadata().clone();
        let parts = Parts::new(Receiving::Stream(requests), Sending::Idle(responses));
        self.handle(asked, metadata, parts).await.map(|_| ())
    }
}

/// A service whose calls the program handles.
pub(crate) struct Foreign {
    pub(crate) service: Service,
    pub(crate) accepting: Arc<Accepting>,
}

impl rt::Service for Foreign {
    fn info(&self) -> ServiceRef {
        self.service.info().clone()
    }

    fn methods(self, methods: &mut rt::Methods) {
        let info = self.service.info();
        for method in info.methods() {
            let asked = Asked { service: info.clone(), method: method.index, timeout: None };
            if method.kind == MethodKind::Unary {
                let call = move |accepting: Arc<Accepting>, request| {
                    let asked = asked.clone();
                    async move {
                        let response = accepting.unary(asked, request).await;
                        (accepting, response)
                    }
                };
                methods.unary(method.index, &self.accepting, call);
            } else {
                let call = move |accepting: Arc<Accepting>, requests, responses| {
                    let asked = asked.clone();
                    async move {
                        let done = accepting.streams(asked, requests, responses).await;
                        (accepting, done)
                    }
                };
                methods.bidirectional(method.index, &self.accepting, call);
            }
        }
    }
}
