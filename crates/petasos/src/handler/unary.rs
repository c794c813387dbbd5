//! Unary methods in a loop. A request's handler is a future in a slot, and is first polled in the
//! turn that received the request.
//!
//! A request whose decompression is slow occupies a slot meanwhile; its handler starts in that
//! slot.
//!
//! Invariants: a slot has a future or an `unpacking` exactly while its `waiting` is `Some`, except
//! during a poll. A slot is on the free list exactly if it has none of them. The slab only grows.

use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::{Answer, Failure, Malformed, RequestHead, Status};
use petasos_endpoint::{Context, Payload, RejectCode, Request as Arrived, RequestHandle};
use petasos_message::{Message, Msg};
#[cfg(feature = "grpc")]
use petasos_rpc::intercept::Hooks;
use petasos_rpc::intercept::around_handler;
use petasos_rpc::request::{Request, RequestParts as _, Response};
use petasos_runtime::buffers::free;
use petasos_runtime::dispatcher::{Dispatcher, DispatcherParts, LocalMethod, has_room};
use petasos_runtime::local::TaskWaker;
use petasos_runtime::shared::Shared;
use petasos_runtime::task::Task;

use super::exchange::{PLAIN, respond};
use super::on_workers::{finish, run_unary};
use super::reading::{self, Read, Unread};
use super::{AnyMethod, Serving};

type Types<Q, P, F> = PhantomData<fn(Q) -> (P, F)>;

/// A unary method, independent of any loop.
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
        // Each case is a separate type, so that none pays for the others.
        match (hooks, workers) {
            (None, None) => Box::new(InLoop::<T, Q, P, F, C>::new(service, call, shared, kind)),
            (None, Some(workers)) => {
                let call = move |service, request| {
                    let job = run_unary(&workers, &call, &service, request);
                    finish(service, job)
                };
                Box::new(InLoop::<T, Q, P, _, _>::new(service, call, shared, kind))
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
                            let job = run_unary(workers, &call, &service, request);
                            finish(service, job).await
                        },
                    )
                };
                Box::new(InLoop::<T, Q, P, _, _>::new(service, call, shared, kind))
            }
        }
    }

    #[cfg(feature = "grpc")]
    fn serve(
        &self,
        call: petasos_grpc::ServerCall,
        caller: super::grpc::Caller,
        hooks: Option<Hooks>,
    ) -> petasos_grpc::BoxFuture<'static, ()> {
        Box::pin(super::grpc::unary(call, caller, self.service.clone(), self.call.clone(), hooks))
    }
}

/// A unary method in a loop.
struct InLoop<T, Q, P, F, C> {
    service: Arc<T>,
    /// The service reference that the last handler returned, for the next one.
    spare: Option<Arc<T>>,
    call: C,
    shared: Arc<Shared>,
    kind: u32,
    slots: Vec<Slot<Q, F>>,
    free: Vec<u32>,
    types: PhantomData<fn(Q) -> P>,
}

struct Slot<Q, F> {
    future: Pin<Box<Option<F>>>,
    waiting: Option<Waiting>,
    /// The request, while another thread decompresses it.
    unpacking: Option<Unread<Q>>,
    how: How,
    generation: u32,
    task_waker: Arc<TaskWaker>,
    waker: Waker,
}

/// How a request is handled and answered.
#[derive(Clone, Copy)]
struct How {
    /// The allowed format of the answer (R6).
    answer: Answer,
    deadline: Time,
}

/// The data to answer the request of a handler that waits.
struct Waiting {
    handle: RequestHandle,
    since: Time,
}

/// A handler during a poll. If it panics, the drop of this guard cleans up.
struct Polled<'a, T, Q, P, F, C> {
    method: &'a mut InLoop<T, Q, P, F, C>,
    parts: &'a mut DispatcherParts,
    cx: &'a mut Context<Dispatcher>,
    slot: u32,
    handle: Option<RequestHandle>,
    /// When it was first found waiting.
    since: Option<Time>,
}

impl<T, Q, P, F, C> Drop for Polled<'_, T, Q, P, F, C> {
    #[cold]
    fn drop(&mut self) {
        self.parts.local.forget_polling();
        self.parts.note_panic();
        self.method.release(self.slot);
        if let Some(handle) = self.handle.take() {
            match self.since {
                Some(since) => self.parts.answered(handle.key(), since, self.cx.now()),
                None => {
                    let task = Task { kind: self.method.kind, slot: self.slot };
                    self.parts.local.unwatch(task);
                }
            }
            // R12.
            self.cx.reject(handle, RejectCode::HandlerFailed);
        }
    }
}

impl<T, Q, P, F, C> InLoop<T, Q, P, F, C> {
    fn new(service: &Arc<T>, call: C, shared: &Arc<Shared>, kind: u32) -> Self {
        InLoop {
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

    /// Empties a slot whose handler is not done.
    #[cold]
    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let future = &mut slot.future;
        // Even if the drop of the future panics, the future is gone.
        let _ = catch_unwind(AssertUnwindSafe(|| future.set(None)));
        slot.unpacking = None;
        self.free.push(index);
    }
}

impl<T, Q, P, F, C> InLoop<T, Q, P, F, C>
where
    Q: Message,
    P: Message,
    F: Future<Output = (Arc<T>, Result<Response<P>, Status>)>,
    C: Fn(Arc<T>, Request<Q>) -> F,
{
    fn task(&self, slot: u32) -> Task {
        Task { kind: self.kind, slot }
    }

    #[inline(always)]
    fn take_slot(&mut self) -> u32 {
        match self.free.pop() {
            Some(slot) => slot,
            None => self.add_slot(),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_slot(&mut self) -> u32 {
        let slot = self.slots.len() as u32;
        let task_waker = TaskWaker::new(&self.shared, self.task(slot));
        let waker = Waker::from(task_waker.clone());
        self.slots.push(Slot {
            future: Box::pin(None),
            waiting: None,
            unpacking: None,
            how: How { answer: PLAIN, deadline: Time::NEVER },
            generation: 0,
            task_waker,
            waker,
        });
        slot
    }

    /// Handles a request that is more than a plain message, is malformed, or must be refused.
    #[inline(never)]
    fn start_otherwise(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        handle: RequestHandle,
        payload: Payload<'_>,
    ) {
        let head = payload.first_chunk().ok_or(Malformed::TooShort);
        let head = match head.and_then(|head| RequestHead::parse(*head)) {
            Ok(head) => head,
            Err(malformed) => {
                parts.refuse_malformed(cx, handle, malformed);
                return free(cx, payload);
            }
        };
        if let Some(code) = parts.refusal(cx, has_room(&payload)) {
            cx.reject(handle, code);
            return free(cx, payload);
        }
        let origin = parts.origin(cx, handle.key().session());
        let request = reading::read(cx, payload, head, origin, handle.key().session());
        let left = Duration::from_micros(head.time_left_us.into());
        let deadline = if left.is_zero() { Time::NEVER } else { cx.now() + left };
        let how = How { answer: head.answer, deadline };
        match request {
            Ok(Read::Request(request)) => self.begin(parts, cx, handle, request, how),
            Ok(Read::Elsewhere(request)) => self.wait(parts, cx, handle, request, how),
            Ok(Read::Nowhere) => cx.reject(handle, RejectCode::Overloaded),
            Err(status) => reading::refuse(parts, cx, handle, &status),
        }
    }

    /// Occupies a slot for a request that another thread decompresses.
    #[cold]
    fn wait(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        handle: RequestHandle,
        request: Unread<Q>,
        how: How,
    ) {
        let (index, key, now) = (self.take_slot(), handle.key(), cx.now());
        let slot = &mut self.slots[index as usize];
        (slot.how, slot.unpacking) = (how, Some(request));
        slot.waiting = Some(Waiting { handle, since: now });
        let generation = slot.generation;
        parts.wait(now, key, self.task(index), generation, how.deadline);
        self.poll_slot(parts, cx, index);
    }

    /// Starts the handler in a slot whose request has been decompressed. Returns false if there is
    /// no request, or not yet.
    #[cold]
    fn go_on(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        index: u32,
    ) -> bool {
        let Slot { unpacking, waker, .. } = &mut self.slots[index as usize];
        let Some(read) = unpacking.as_mut() else { return true };
        let mut context = TaskContext::from_waker(waker);
        let Poll::Ready(request) = read.as_mut().poll(&mut context) else { return false };
        *unpacking = None;
        match request {
            Ok(request) => {
                let service = self.spare.take().unwrap_or_else(|| self.service.clone());
                let future = (self.call)(service, request);
                self.slots[index as usize].future.set(Some(future));
                true
            }
            Err(status) => {
                if let Some(handle) = self.end(parts, cx.now(), index) {
                    reading::refuse(parts, cx, handle, &status);
                }
                false
            }
        }
    }

    /// Stores a request's handler in a slot, and polls it.
    #[inline(always)]
    fn begin(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        handle: RequestHandle,
        request: Request<Q>,
        how: How,
    ) {
        let service = self.spare.take().unwrap_or_else(|| self.service.clone());
        let index = self.take_slot();
        let slot = &mut self.slots[index as usize];
        slot.how = how;
        slot.task_waker.polled();
        // This closure of generated code only makes a future, and runs no other code.
        slot.future.set(Some((self.call)(service, request)));
        let Some(handle) = self.run(parts, cx, (index, how), handle, None) else {
            return parts.took_nothing();
        };
        let (key, now) = (handle.key(), cx.now());
        let slot = &mut self.slots[index as usize];
        slot.waiting = Some(Waiting { handle, since: now });
        let generation = slot.generation;
        parts.wait(now, key, self.task(index), generation, how.deadline);
    }

    /// Polls the handler in a slot, which has waited since `since`. If the handler is done, the
    /// request is answered, and the slot is empty afterwards. Otherwise this returns the request's
    /// handle.
    ///
    /// A panic of the handler propagates to the caller, which runs other handlers as well. The
    /// panicking handler is done.
    #[inline(always)]
    fn run(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        (index, how): (u32, How),
        handle: RequestHandle,
        since: Option<Time>,
    ) -> Option<RequestHandle> {
        let task = self.task(index);
        let handle = Some(handle);
        let mut polled = Polled { method: self, parts, cx, slot: index, handle, since };
        let Slot { future, waker, .. } = &mut polled.method.slots[index as usize];
        let future = future.as_mut().as_pin_mut().expect("the slot has a future");
        let mut context = TaskContext::from_waker(waker);
        let poll = || future.poll(&mut context);
        let outcome = polled.parts.local.polling(task, waker, how.deadline, poll);
        let handle = polled.handle.take();
        core::mem::forget(polled);
        let Poll::Ready((service, result)) = outcome else { return handle };
        let handle = handle.expect("it was just put there");
        match since {
            Some(since) => parts.answered(handle.key(), since, cx.now()),
            None => parts.local.unwatch(task),
        }
        self.spare = Some(service);
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.future.set(None);
        self.free.push(index);
        match result {
            Ok(response) => respond(parts, cx, handle, response, how.answer),
            Err(status) => parts.refuse(cx, handle, &status),
        }
        None
    }

    /// Polls the waiting handler in a slot again.
    #[inline(always)]
    fn poll_slot(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        let Some(entry) = self.slots.get_mut(slot as usize) else { return };
        entry.task_waker.polled();
        if entry.unpacking.is_some() && !self.go_on(parts, cx, slot) {
            return;
        }
        let entry = &mut self.slots[slot as usize];
        let Some(Waiting { handle, since }) = entry.waiting.take() else { return };
        let how = entry.how;
        if let Some(handle) = self.run(parts, cx, (slot, how), handle, Some(since)) {
            self.slots[slot as usize].waiting = Some(Waiting { handle, since });
        }
    }

    /// Drops the handler that waits in a slot, and returns the handle for its answer.
    fn end(&mut self, parts: &mut DispatcherParts, now: Time, index: u32) -> Option<RequestHandle> {
        let Waiting { handle, since } = self.slots[index as usize].waiting.take()?;
        parts.answered(handle.key(), since, now);
        self.release(index);
        Some(handle)
    }
}

impl<T, Q, P, F, C> LocalMethod for InLoop<T, Q, P, F, C>
where
    T: Send + Sync + 'static,
    Q: Message,
    P: Message,
    F: Future<Output = (Arc<T>, Result<Response<P>, Status>)> + Send + 'static,
    C: Fn(Arc<T>, Request<Q>) -> F + Send + Sync + 'static,
{
    fn start(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        request: &mut Arrived<'_>,
    ) {
        // Decode a request that was just assembled in place: moving it as a whole would stall on
        // the stores that wrote it.
        if let Payload::Frame(bytes) = request.payload
            && let Some((&RequestHead::PLAIN, body)) = bytes.split_first_chunk()
            && !cx.is_draining()
            && !parts.is_full()
        {
            let how = How { answer: PLAIN, deadline: Time::NEVER };
            let origin = parts.origin(cx, request.handle.key().session());
            // Nothing that can panic happens in between, so the message is written only once.
            if let Some(message) = Msg::try_copy_native(body) {
                let typed = Request::plain(message, origin);
                return self.begin(parts, cx, request.handle.take(), typed, how);
            }
        }
        let payload = core::mem::replace(&mut request.payload, Payload::Frame(&[]));
        self.start_otherwise(parts, cx, request.handle.take(), payload);
    }

    fn poll(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.poll_slot(parts, cx, slot);
    }

    fn untimed(self: Box<Self>) -> Result<Box<dyn LocalMethod>, Box<dyn LocalMethod>> {
        Err(self)
    }

    fn is_waiting(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.waiting.is_some())
    }

    fn abandon(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        // The handle is no longer valid, so no answer is possible.
        let _void = self.end(parts, cx.now(), slot);
    }

    fn cut_off(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        if let Some(handle) = self.end(parts, cx.now(), slot) {
            parts.refuse(cx, handle, &Failure::Draining.status());
        }
    }

    fn expire(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        slot: u32,
        generation: u32,
    ) {
        if self.slots[slot as usize].generation != generation {
            return;
        }
        if let Some(handle) = self.end(parts, cx.now(), slot) {
            let late = Status::deadline_exceeded("the handler was not done in time");
            parts.refuse(cx, handle, &late);
        }
    }
}
