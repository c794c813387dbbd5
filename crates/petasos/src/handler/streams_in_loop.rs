//! A method with streams in a loop. The first exchange of a stream starts its handler, whose future
//! is stored in a slot.
//!
//! Invariants: a slot's future is `Some` exactly while its handler runs. A slot is on the free list
//! exactly if its future is `None`, except during a poll. The slab only grows. While a handler
//! waits, its stream knows its slot.

use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::Status;
use petasos_endpoint::{Context, Request as Arrived};
use petasos_message::Message;
use petasos_runtime::dispatcher::Handling;
use petasos_runtime::dispatcher::LocalMethod;
use petasos_runtime::dispatcher::{Dispatcher, DispatcherParts, Due};
use petasos_runtime::local::TaskWaker;
use petasos_runtime::shared::Shared;
use petasos_runtime::streams::StreamKey;
use petasos_runtime::task::Task;

use super::around::Served;
use crate::stream::{Sender, Sink, Source, Streaming};

/// A method with streams in a loop.
pub(super) struct InLoop<T, Q, P, F, C> {
    service: Arc<T>,
    /// The service reference that the last handler returned, for the next one.
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
    stream: StreamKey,
    deadline: Time,
    generation: u32,
    task_waker: Arc<TaskWaker>,
    waker: Waker,
}

impl<T, Q, P, F, C> InLoop<T, Q, P, F, C>
where
    F: Future<Output = Served<T, ()>>,
{
    pub(super) fn new(service: Arc<T>, call: C, shared: Arc<Shared>, kind: u32) -> Self {
        let (slots, free) = (Vec::new(), Vec::new());
        InLoop { service, spare: None, call, shared, kind, slots, free, types: PhantomData }
    }

    fn task(&self, slot: u32) -> Task {
        Task { kind: self.kind, slot }
    }

    fn take_slot(&mut self, stream: StreamKey, deadline: Time) -> u32 {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            (slot.stream, slot.deadline) = (stream, deadline);
            slot.task_waker.polled();
            return index;
        }
        let index = self.slots.len() as u32;
        let task_waker = TaskWaker::new(&self.shared, self.task(index));
        let waker = Waker::from(task_waker.clone());
        let future = Box::pin(None);
        self.slots.push(Slot { future, stream, deadline, generation: 0, task_waker, waker });
        index
    }

    /// Polls the handler in a slot. If it is done, the slot is empty afterwards, and the stream has
    /// ended.
    fn poll_slot(&mut self, parts: &mut DispatcherParts, index: u32) -> Poll<()> {
        let task = self.task(index);
        let Slot { future, waker, deadline, stream, .. } = &mut self.slots[index as usize];
        let stream = *stream;
        let poll = || {
            let future = future.as_mut().as_pin_mut().expect("the slot has a future");
            let mut context = TaskContext::from_waker(waker);
            parts.local.polling(task, waker, *deadline, || future.poll(&mut context))
        };
        let result = match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready((service, result))) => {
                self.spare = Some(service);
                Some(result)
            }
            Err(_) => {
                parts.local.forget_polling();
                None
            }
        };
        // Release what the handler has left before ending the stream. If the handler used its
        // streams on another thread, this arrives as commands.
        self.release(parts, index);
        if parts.local.shared.has_commands() {
            parts.local.run_commands();
        }
        let streams = &mut *parts.local.streams.borrow_mut();
        match result {
            Some(result) => streams.handler_ended(stream, result),
            None => {
                parts.note_panic();
                streams.handler_dropped(stream, Status::internal("the handler panicked"));
            }
        }
        Poll::Ready(())
    }

    /// Empties a slot.
    fn release(&mut self, parts: &DispatcherParts, index: u32) {
        parts.local.unwatch(self.task(index));
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let future = &mut slot.future;
        // Even if the drop of the future panics, the future is gone.
        let _ = catch_unwind(AssertUnwindSafe(|| future.set(None)));
        self.free.push(index);
    }
}

impl<T, Q, P, F, C> LocalMethod for InLoop<T, Q, P, F, C>
where
    T: Send + Sync + 'static,
    Q: Message,
    P: Message,
    F: Future<Output = Served<T, ()>> + Send + 'static,
    C: Fn(Arc<T>, Streaming<Q>, Sender<P>) -> F + Send + Sync + 'static,
{
    fn start(&mut self, _: &mut DispatcherParts, _: &mut Context<Dispatcher>, _: &mut Arrived<'_>) {
        unreachable!("requests of streams are exchanges");
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn open(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        handling: Handling,
    ) {
        let Handling { key, requests, responses, call_parts } = handling;
        let timeout = call_parts.timeout;
        let now = cx.now();
        let deadline = timeout.map_or(Time::NEVER, |left| now + left);
        let requests = Streaming::of_handler(Source::Datagrams(requests), call_parts);
        let responses = Sender::new(Sink::Datagrams(responses));
        let service = self.spare.take().unwrap_or_else(|| self.service.clone());
        let index = self.take_slot(key, deadline);
        let slot = &mut self.slots[index as usize];
        // This closure of generated code only makes a future, and runs no other code.
        slot.future.set(Some((self.call)(service, requests, responses)));
        if self.poll_slot(parts, index).is_ready() {
            return;
        }
        parts.local.streams.borrow_mut().handler_waits(key, index);
        if deadline != Time::NEVER {
            let generation = self.slots[index as usize].generation;
            let due = Due::Handler { task: self.task(index), generation, at: deadline };
            parts.deadlines.insert(now, deadline, due);
        }
    }

    fn poll(&mut self, parts: &mut DispatcherParts, _: &mut Context<Dispatcher>, slot: u32) {
        let Some(entry) = self.slots.get_mut(slot as usize) else { return };
        entry.task_waker.polled();
        if entry.future.is_some() {
            let _ = self.poll_slot(parts, slot);
        }
    }

    fn untimed(self: Box<Self>) -> Result<Box<dyn LocalMethod>, Box<dyn LocalMethod>> {
        Err(self)
    }

    fn is_waiting(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.future.is_some())
    }

    fn abandon(&mut self, parts: &mut DispatcherParts, _: &mut Context<Dispatcher>, slot: u32) {
        self.release(parts, slot);
    }

    fn expire(
        &mut self,
        parts: &mut DispatcherParts,
        _: &mut Context<Dispatcher>,
        slot: u32,
        generation: u32,
    ) {
        let entry = &self.slots[slot as usize];
        if entry.generation != generation {
            return;
        }
        let stream = entry.stream;
        self.release(parts, slot);
        let late = Status::deadline_exceeded("the handler was not done in time");
        parts.local.streams.borrow_mut().handler_dropped(stream, late);
    }

    fn cut_off(&mut self, parts: &mut DispatcherParts, _: &mut Context<Dispatcher>, slot: u32) {
        let stream = self.slots[slot as usize].stream;
        self.release(parts, slot);
        let ended = Status::unavailable("the server has ended");
        parts.local.streams.borrow_mut().handler_dropped(stream, ended);
    }
}
