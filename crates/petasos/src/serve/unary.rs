//! Unary methods: a request's handler is a future in a slot, polled in the turn that received the
//! request.
//!
//! Invariants: a slot's future is `Some` exactly while its `waiting` is, polls apart; a slot is on
//! the free list exactly if it has neither. The slab only grows.

use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::{
    Answer, Code, Codec, Encoding, Failure, Metadata, RequestHead, ResponseHead, Status, read_tail,
    split,
};
use petasos_endpoint::{Context, RejectCode, Request as RawRequest, RequestHandle};
use petasos_message::{Message, Msg, ROOM_BYTES, recycle};

use super::{AnyMethod, LocalMethod, Serving};
use crate::codec::{decode, framed, unencodable};
use crate::home::hub::{Hub, HubParts, free};
use crate::home::local::Task;
use crate::home::shared::{Shared, TaskWaker};
#[cfg(feature = "grpc")]
use crate::intercept::Hooks;
use crate::intercept::{Beside, Extensions, around_handler};
use crate::peer::Origin;
use crate::recode::{compressed_response, unpacked};
use crate::request::{Request, Response, TAIL_BYTES_LIMIT, tail_of, with_trace};
use crate::server::workers::{Full, Running, Workers};

type Types<Q, P, F> = PhantomData<fn(Q) -> (P, F)>;

/// A method for any loop.
pub(crate) struct Unary<T, Q, P, F, C> {
    service: Arc<T>,
    call: C,
    types: Types<Q, P, F>,
}

impl<T, Q, P, F, C> Unary<T, Q, P, F, C> {
    pub(crate) fn new(service: Arc<T>, call: C) -> Self {
        Unary { service, call, types: PhantomData }
    }
}

impl<T, Q, P, F, C> AnyMethod for Unary<T, Q, P, F, C>
where
    T: Send + Sync + 'static,
    Q: Message,
    P: Message,
    F: Future<Output = (Arc<T>, Result<Response<P>, Status>)> + Send + 'static,
    C: Fn(Arc<T>, Request<Q>) -> F + Clone + Send + Sync + 'static,
{
    fn local(&self, serving: Serving<'_>) -> Box<dyn LocalMethod> {
        let Serving { shared, kind, workers, hooks } = serving;
        let (service, call) = (&self.service, self.call.clone());
        let workers = workers.cloned();
        // Each is a method of its own, so that none pays for the others.
        match (hooks, workers) {
            (None, None) => Box::new(Here::<T, Q, P, F, C>::new(service, call, shared, kind)),
            (None, Some(workers)) => {
                let call = move |service, request| {
                    let running = run_on(&workers, &call, &service, request);
                    finish(service, running)
                };
                Box::new(Here::<T, Q, P, _, _>::new(service, call, shared, kind))
            }
            (Some(hooks), workers) => {
                let call = move |service, request| {
                    let (workers, call) = (workers.clone(), call.clone());
                    around_handler(
                        hooks.clone(),
                        service,
                        request,
                        async move |service, request| {
                            let Some(workers) = &workers else {
                                return call(service, request).await;
                            };
                            let running = run_on(workers, &call, &service, request);
                            finish(service, running).await
                        },
                    )
                };
                Box::new(Here::<T, Q, P, _, _>::new(service, call, shared, kind))
            }
        }
    }

    #[cfg(feature = "grpc")]
    fn serve(
        &self,
        call: petasos_grpc::ServerCall,
        hooks: Option<Hooks>,
    ) -> petasos_grpc::BoxFuture<'static, ()> {
        Box::pin(super::grpc::unary(call, self.service.clone(), self.call.clone(), hooks))
    }
}

/// Starts a handler on workers, with a reference of its own to the service.
fn run_on<T, Q: Message, F>(
    workers: &Workers,
    call: impl Fn(Arc<T>, Request<Q>) -> F,
    service: &Arc<T>,
    request: Request<Q>,
) -> Result<Running<F>, Full>
where
    F: Future<Output: Send> + Send + 'static,
{
    let timeout = request.timeout();
    workers.run(timeout, call(service.clone(), request))
}

/// What a handler on workers comes to.
async fn finish<T, P, F>(service: Arc<T>, running: Result<Running<F>, Full>) -> F::Output
where
    F: Future<Output = (Arc<T>, Result<Response<P>, Status>)>,
{
    match running {
        Ok(running) => running.await,
        Err(full) => (service, Err(full.into())),
    }
}

/// A method in a loop.
struct Here<T, Q, P, F, C> {
    service: Arc<T>,
    /// A reference that the last handler gave back, for the next.
    spare: Option<Arc<T>>,
    call: C,
    shared: Arc<Shared>,
    kind: u32,
    slots: Vec<Slot<F>>,
    free: Vec<u32>,
    types: PhantomData<fn(Q) -> P>,
}

struct Slot<F> {
    future: Pin<Box<Option<F>>>,
    waiting: Option<Waiting>,
    deadline: Time,
    /// How the answer may be (R6).
    answer: Answer,
    generation: u32,
    alarm: Arc<TaskWaker>,
    waker: Waker,
}

/// What a handler that waits will answer.
struct Waiting {
    handle: RequestHandle,
    since: Time,
}

/// What a poll of a handler gave.
enum Polled<P> {
    Pending,
    Ready(Result<Response<P>, Status>),
    Panicked,
}

impl<T, Q, P, F, C> Here<T, Q, P, F, C> {
    fn new(service: &Arc<T>, call: C, shared: &Arc<Shared>, kind: u32) -> Self {
        Here {
            service: service.clone(),
            spare: None,
            call,
            shared: shared.clone(),
            kind,
            slots: Vec::new(),
            free: Vec::new(),
            types: PhantomData,
        }
    }
}

impl<T, Q, P, F, C> Here<T, Q, P, F, C>
where
    Q: Message,
    P: Message,
    F: Future<Output = (Arc<T>, Result<Response<P>, Status>)>,
    C: Fn(Arc<T>, Request<Q>) -> F,
{
    fn task(&self, slot: u32) -> Task {
        Task { kind: self.kind, slot }
    }

    #[inline]
    fn take_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = self.slots.len() as u32;
        let alarm = TaskWaker::new(&self.shared, self.task(slot));
        let waker = Waker::from(alarm.clone());
        self.slots.push(Slot {
            future: Box::pin(None),
            waiting: None,
            deadline: Time::NEVER,
            answer: Answer::default(),
            generation: 0,
            alarm,
            waker,
        });
        slot
    }

    /// Polls the future in a slot; unless it waits on, the slot is empty then.
    #[inline]
    fn poll_slot(&mut self, parts: &mut HubParts, index: u32) -> Polled<P> {
        let task = self.task(index);
        let slot = &mut self.slots[index as usize];
        let Slot { future, waker, deadline, .. } = slot;
        let poll = || {
            let future = future.as_mut().as_pin_mut().expect("the slot has a future");
            let mut context = TaskContext::from_waker(waker);
            parts.local.polling(task, waker, *deadline, || future.poll(&mut context))
        };
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => Polled::Pending,
            Ok(Poll::Ready((service, result))) => {
                self.spare = Some(service);
                self.release(index);
                Polled::Ready(result)
            }
            Err(_) => {
                parts.panics += 1;
                self.release(index);
                Polled::Panicked
            }
        }
    }

    /// Empties a slot.
    #[inline]
    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let future = &mut slot.future;
        // A future whose drop panics is gone all the same.
        let _ = catch_unwind(AssertUnwindSafe(|| future.set(None)));
        self.free.push(index);
    }

    /// Ends the handler that waits in a slot, and gives what it would have answered.
    fn end(&mut self, parts: &mut HubParts, now: Time, index: u32) -> Option<RequestHandle> {
        let Waiting { handle, since } = self.slots[index as usize].waiting.take()?;
        parts.answered(handle.key(), since, now);
        self.release(index);
        Some(handle)
    }

    /// Answers with what the handler in a slot that is empty now has given.
    fn answer(
        &self,
        parts: &mut HubParts,
        cx: &mut Context<Hub>,
        (handle, slot): (RequestHandle, u32),
        by: Polled<P>,
    ) {
        match by {
            Polled::Ready(Ok(response)) => {
                let answer = self.slots[slot as usize].answer;
                respond(parts, cx, handle, response, answer);
            }
            Polled::Ready(Err(status)) => parts.refuse(cx, handle, &status),
            // R12: as if the endpoint had caught it.
            Polled::Panicked => cx.reject(handle, RejectCode::HandlerFailed),
            Polled::Pending => unreachable!("a handler that waits is not answered"),
        }
    }
}

impl<T, Q, P, F, C> LocalMethod for Here<T, Q, P, F, C>
where
    T: Send + Sync + 'static,
    Q: Message,
    P: Message,
    F: Future<Output = (Arc<T>, Result<Response<P>, Status>)> + Send + 'static,
    C: Fn(Arc<T>, Request<Q>) -> F + Send + Sync + 'static,
{
    #[inline]
    fn start(
        &mut self,
        parts: &mut HubParts,
        cx: &mut Context<Hub>,
        raw: RawRequest<'_>,
        head: RequestHead,
    ) {
        let RawRequest { handle, payload, .. } = raw;
        let limit = || {
            let params = cx.served_params(handle.key().session());
            params.map_or(0, |params| params.request_bytes_max as usize)
        };
        let origin = parts.origin(cx, handle.key().session());
        let request = read_request::<Q>(&payload, &head, origin, limit);
        free(cx, payload);
        if cx.is_draining() || parts.is_full() {
            let draining = cx.is_draining();
            let code = if draining { RejectCode::Draining } else { RejectCode::Overloaded };
            return cx.reject(handle, code);
        }
        let request = match request {
            Ok(request) => request,
            Err(status) => {
                parts.malformed += u64::from(status.code() == Code::Internal);
                return parts.refuse(cx, handle, &status);
            }
        };
        let now = cx.now();
        let deadline = request.timeout().map_or(Time::NEVER, |left| now + left);
        let service = self.spare.take().unwrap_or_else(|| self.service.clone());
        let index = self.take_slot();
        let call = &self.call;
        let slot = &mut self.slots[index as usize];
        (slot.deadline, slot.answer) = (deadline, head.answer);
        slot.alarm.polled();
        // The closure of generated code makes a future and runs nothing.
        slot.future.set(Some(call(service, request)));
        match self.poll_slot(parts, index) {
            Polled::Pending => {
                let key = handle.key();
                let slot = &mut self.slots[index as usize];
                slot.waiting = Some(Waiting { handle, since: now });
                let generation = slot.generation;
                parts.wait(now, key, self.task(index), generation, deadline);
            }
            over => {
                parts.took(0);
                self.answer(parts, cx, (handle, index), over);
            }
        }
    }

    fn poll(&mut self, parts: &mut HubParts, cx: &mut Context<Hub>, slot: u32) {
        let Some(entry) = self.slots.get_mut(slot as usize) else { return };
        entry.alarm.polled();
        if entry.waiting.is_none() {
            return;
        }
        match self.poll_slot(parts, slot) {
            Polled::Pending => {}
            over => {
                let waiting = self.slots[slot as usize].waiting.take();
                let Waiting { handle, since } = waiting.expect("the handler has waited");
                parts.answered(handle.key(), since, cx.now());
                self.answer(parts, cx, (handle, slot), over);
            }
        }
    }

    fn abandon(&mut self, parts: &mut HubParts, cx: &mut Context<Hub>, slot: u32) {
        // The handle is void: nothing can be answered.
        let _void = self.end(parts, cx.now(), slot);
    }

    fn cut_off(&mut self, parts: &mut HubParts, cx: &mut Context<Hub>, slot: u32) {
        if let Some(handle) = self.end(parts, cx.now(), slot) {
            parts.refuse(cx, handle, &Failure::Draining.status());
        }
    }

    fn expire(&mut self, parts: &mut HubParts, cx: &mut Context<Hub>, slot: u32, generation: u32) {
        if self.slots[slot as usize].generation != generation {
            return;
        }
        if let Some(handle) = self.end(parts, cx.now(), slot) {
            let late = Status::deadline_exceeded("the handler was not done in time");
            parts.refuse(cx, handle, &late);
        }
    }
}

/// The request in `bytes`, behind its head. One that is compressed may become as long as `limit`.
#[inline]
fn read_request<Q: Message>(
    bytes: &[u8],
    head: &RequestHead,
    origin: Origin,
    limit: impl FnOnce() -> usize,
) -> Result<Request<Q>, Status> {
    let (body, tail) = split(bytes, head.has_tail)?;
    let (metadata, extensions) = match head.has_tail {
        true => {
            let parts = read_tail(tail, TAIL_BYTES_LIMIT)?;
            (parts.initial, with_trace(parts.trace))
        }
        false => (Metadata::new(), Extensions::new()),
    };
    let message = match head.codec {
        Codec::IDENTITY => decode(head.encoding, &bytes[body])?,
        codec => decode(head.encoding, &unpacked(codec, &bytes[body], limit())?)?,
    };
    let left = Duration::from_micros(head.time_left_us.into());
    let timeout = (!left.is_zero()).then_some(left);
    Ok(Request::with(message, Beside { metadata, timeout, extensions, origin }))
}

/// R5, R7: answers with a message, and what is beside it.
#[inline]
fn respond<P: Message>(
    parts: &mut HubParts,
    cx: &mut Context<Hub>,
    handle: RequestHandle,
    response: Response<P>,
    answer: Answer,
) {
    let (message, metadata, trailers) = response.into_parts();
    let (encoding, image) = match answer.native {
        true => (Encoding::Native, Msg::into_native(message)),
        false => (Encoding::Protobuf, Msg::to_protobuf(&message, ROOM_BYTES)),
    };
    let image = match image {
        Ok(image) => image,
        Err(error) => return parts.refuse(cx, handle, &unencodable(error)),
    };
    let tail = tail_of(&metadata, &trailers);
    let head = ResponseHead {
        encoding,
        codec: Codec::IDENTITY,
        has_tail: !tail.is_empty(),
        code: Code::Ok,
        load: parts.load(),
    };
    let buf = framed(image, head.to_bytes(), &tail);
    match answer.codec {
        Codec::IDENTITY => cx.respond_with(handle, &buf),
        codec => cx.respond_with(handle, &compressed_response(head, codec, &buf)),
    }
    recycle(buf);
}
