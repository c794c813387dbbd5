//! A turn of the loop: from the outbox to the endpoint, and from the ready list to futures.
//!
//! Only this module joins the others. Calls, channels and streams are tables that know neither each
//! other nor the endpoint, and report what has to be done with them; the files of this folder do
//! that.
//!
//! | file | part of the turn |
//! |---|---|
//! | `requests`
//! requests that arrived: binds, and requests that start handlers |
//! | `calls`
//! sending calls, and handling their outcomes |
//! | `attempts`, `hedges`
//! calls that are sent more than once |
//! | `channels`, `binds` | sessions are opened and closed, and services bound |
//! | `streams`, `callers`, `handlers` | streams: those called from here, and those served |
//! | `restarts`
//! streams of which nothing was delivered restart |
//! | `due`
//! calls and handlers that have reached their deadlines |

mod attempts;
mod binds;
mod callers;
mod calls;
mod channels;
mod due;
mod handlers;
mod hedges;
mod managed;
mod requests;
mod restarts;
mod streams;
mod work;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Drain;

use petasos_base::Time;
use petasos_endpoint::{Context, SessionId};

use super::dispatcher::Dispatcher;
use super::due::Due;
use super::local::Local;
use super::task::Task;
use work::with_work;

pub(crate) use handlers::{dispatch as dispatch_stream, refuse as refuse_streams};
pub(crate) use requests::{abandon, bind, dispatch, refuse as refuse_requests};

/// How often one turn processes the ready tasks and the outbox. With only one round, a call within
/// one loop would need several turns.
const ROUNDS: u32 = 16;

/// Handles a session whose server has a successor at the same address (C22).
#[cold]
pub(crate) fn succeeded(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    session: SessionId,
) {
    dispatcher.parts.local.channels.borrow_mut().succeeded(session, cx.now());
}

/// Performs one turn.
pub(crate) fn work(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) -> Time {
    let local = dispatcher.parts.local;
    let now = cx.now();
    local.set_turn(Some(now));
    if local.shared.has_commands() {
        local.run_commands();
    }
    if local.joined.is_asked() {
        local.joined.answer(cx);
    }
    let is_managed = local.managed.is_on();
    let has_received = is_managed && managed::receive(dispatcher, cx);
    if dispatcher.parts.deadlines.is_due(now) {
        due::expire(dispatcher, cx);
    }
    if local.channels.borrow().is_any_opening() {
        local.channels.borrow_mut().check_opening(cx);
    }
    if !local.channels.borrow().with_groups.is_empty() {
        local.channels.borrow_mut().watch_groups(cx);
    }
    for _ in 0..ROUNDS {
        local.wake_streams();
        if !local.ready.borrow().is_empty() {
            poll_ready(dispatcher, cx);
        }
        if local.wants_sending() {
            send_outbox(dispatcher, cx);
        }
        streams::run(dispatcher, cx);
        if local.is_at_rest() {
            break;
        }
    }
    cancel(local, cx);
    // The code that ends handlers also reads commands.
    if local.timers.borrow().has_fresh() {
        keep_timers(dispatcher, cx);
    }
    if local.has_polled() {
        dispatcher.check_time(now);
    }
    let carried_at = if is_managed { managed::send(dispatcher, cx) } else { Time::NEVER };
    let waits = !local.is_at_rest() || has_received || local.needs_endpoint();
    if waits { now } else { dispatcher.parts.deadlines.next_due().min(carried_at) }
}

impl Local {
    /// Whether there is work that needs the endpoint itself, between turns.
    pub(crate) fn needs_endpoint(&self) -> bool {
        self.channels.borrow().needs_endpoint() || self.joined.is_renamed()
    }

    /// Whether there is something for [`send_outbox`].
    fn wants_sending(&self) -> bool {
        let channels = self.channels.borrow();
        !self.calls.borrow().is_quiet() || channels.has_work() || !channels.completions.is_empty()
    }

    /// Whether the turn has done everything that was asked for.
    fn is_at_rest(&self) -> bool {
        self.ready.borrow().is_empty()
            && !self.channels.borrow().has_work()
            && !self.streams.borrow().has_news()
    }
}

/// Whether anything was asked for since the last turn.
pub(crate) fn has_work(local: &Local) -> bool {
    let asked = local.shared.has_commands() || local.timers.borrow().has_fresh();
    let has_asks = || local.managed.with(|carrier| carrier.has_asks()).unwrap_or(false);
    asked || local.wants_sending() || !local.is_at_rest() || has_asks()
}

fn poll_ready(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) {
    let local = dispatcher.parts.local;
    let mut ready = core::mem::take(&mut dispatcher.parts.polled);
    core::mem::swap(&mut ready, &mut local.ready.borrow_mut());
    let mut tasks = ready.drain(..);
    // A task that panics ends, and the others are polled nevertheless. Catching panics for each
    // poll separately would cost more than most polls.
    while catch_unwind(AssertUnwindSafe(|| poll_each(dispatcher, cx, &mut tasks))).is_err() {
        local.forget_polling();
    }
    drop(tasks);
    dispatcher.parts.polled = ready;
}

fn poll_each(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    tasks: &mut Drain<'_, Task>,
) {
    let local = dispatcher.parts.local;
    for task in tasks {
        match task.kind {
            Task::SPAWNED => local.poll_spawned(task.slot),
            kind => {
                let Some(method) = dispatcher.methods.get_mut(kind as usize) else {
                    check_watches(dispatcher);
                    continue;
                };
                method.poll(&mut dispatcher.parts, cx, task.slot);
            }
        }
    }
}

/// Sends the calls in the outbox, and performs the actions of the channels.
fn send_outbox(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) {
    let local = dispatcher.parts.local;
    let is_any_over = with_work(&mut dispatcher.parts, |work| {
        if !work.calls.retries.answers.is_empty() {
            work.on_late_answers(cx);
        }
        loop {
            work.send_all(cx);
            if work.channels.has_work() {
                work.settle(cx);
            }
            if !work.calls.failed.is_empty() {
                work.on_send_failures(cx);
            }
            if work.calls.outbox.is_empty() {
                break;
            }
        }
        work.calls.is_any_over() || !work.channels.completions.is_empty()
    });
    if is_any_over {
        local.finish_failed();
    }
}

/// R11: cancels calls whose futures were dropped.
fn cancel(local: &Local, cx: &mut Context<Dispatcher>) {
    loop {
        let Some(call) = local.calls.borrow_mut().cancels.pop() else { return };
        cx.cancel(call);
    }
}

/// Notifies those whose handlers have already ended.
#[cold]
fn check_watches(dispatcher: &Dispatcher) {
    let local = dispatcher.parts.local;
    for task in local.take_fresh_watches() {
        if !dispatcher.methods[task.kind as usize].is_waiting(task.slot) {
            local.unwatch(task);
        }
    }
}

/// Adds new timers to the wheel.
#[cold]
fn keep_timers(dispatcher: &mut Dispatcher, cx: &Context<Dispatcher>) {
    let timers = &mut *dispatcher.parts.local.timers.borrow_mut();
    for (number, at) in timers.take_fresh() {
        dispatcher.parts.deadlines.insert(cx.now(), at, Due::Timer { number, at });
    }
}

/// Ends all waiting handlers, because the server stops. Returns how many there were.
pub(crate) fn cut_off(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) -> usize {
    let tasks: Vec<Task> = dispatcher.parts.waiting.values().copied().collect();
    for task in &tasks {
        dispatcher.methods[task.kind as usize].cut_off(&mut dispatcher.parts, cx, task.slot);
    }
    let streams = handlers::cut_off(dispatcher, cx);
    streams::run(dispatcher, cx);
    tasks.len() + streams
}
