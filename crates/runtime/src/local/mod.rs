//! The part of a loop that futures in its thread access: the call table, the outbox, the ready
//! list.

mod managed;
mod streams;
mod task_waker;
mod tasks;
mod timers;
mod watches;

use core::cell::{Cell, RefCell};
use core::task::Waker;
use core::time::Duration;

use petasos_base::{Clock, Time};
use petasos_buf::MsgBuf;
use petasos_call::Status;
use std::sync::Arc;

use petasos_rpc::cancelled::CancelState;
use petasos_rpc::current::{self, LoopContext};

use super::calls::{Calls, Waiter};
use super::channels::Channels;
use super::head::{CallHead, NewCall};
use super::joined::JoinedGroups;
use super::keys::CallKey;
use super::relayed::Relay;
use super::remote::{Outcome, RemoteCompletion};
use super::shared::{Command, RemoteCall, Shared, loop_gone};
use super::streams::Streams;
use super::task::Task;
use managed::Managed;
pub(crate) use streams::ask_for_session;
pub use task_waker::TaskWaker;
pub use tasks::JoinHandle;
use tasks::Tasks;
pub(crate) use tasks::joinable;
use timers::Timers;
use watches::Watches;

thread_local! {
    static CURRENT: Cell<Option<&'static Local>> = const { Cell::new(None) };
}

/// The loop of this thread, if there is one.
#[inline(always)]
pub fn current() -> Option<&'static Local> {
    CURRENT.get()
}

/// The loop with this number, if it belongs to this thread.
#[inline(always)]
pub fn current_with(loop_id: u32) -> Option<&'static Local> {
    current().filter(|local| local.loop_id == loop_id)
}

/// The part of a loop that futures access. It is leaked, which costs a kilobyte per loop of the
/// process's lifetime. The contents of its tables are freed when the loop has ended
/// (`Local::clear`).
pub struct Local {
    /// The loop's number.
    pub loop_id: u32,
    /// The part that other threads access.
    pub shared: Arc<Shared>,
    pub(crate) clock: Clock,
    pub(crate) calls: RefCell<Calls>,
    pub(crate) channels: RefCell<Channels>,
    pub(crate) tasks: RefCell<Tasks>,
    pub(crate) managed: Managed,
    pub(crate) relay: RefCell<Relay>,
    /// The loop's streams.
    pub streams: RefCell<Streams>,
    pub(crate) watches: RefCell<Watches>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) joined: JoinedGroups,
    pub(crate) ready: RefCell<Vec<Task>>,
    /// The task that is being polled, and the data pointer of its waker, by which an awaited call
    /// recognizes its task.
    polling: Cell<(Task, *const ())>,
    /// The deadline of the handler that is being polled. Its calls inherit it (R10).
    deadline: Cell<Time>,
    /// The time of the current turn, if one runs.
    now: Cell<Option<Time>>,
    pub(crate) main_woken: Cell<bool>,
    /// The grace period for handlers, once the loop was asked to end.
    pub(crate) stopped: Cell<Option<Duration>>,
    /// The waker of the task that drives the loop, if it waits for more than the endpoint's
    /// descriptor.
    pub(crate) driver: RefCell<Option<Waker>>,
}

impl LoopContext for Local {
    fn number(&self) -> u32 {
        self.loop_id
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn deadline(&self) -> Time {
        self.deadline()
    }

    fn now(&self) -> Time {
        self.now()
    }

    fn watch(&self) -> Option<Arc<CancelState>> {
        self.watch_polled()
    }
}

impl Local {
    /// Whether the loop's calls go through the managed service of its host.
    pub fn is_managed(&self) -> bool {
        self.managed.is_on()
    }

    pub(crate) fn new(shared: Arc<Shared>, clock: Clock, seed: u64) -> Local {
        let channels = RefCell::new(Channels::new(shared.clone(), seed));
        Local {
            loop_id: shared.loop_id,
            shared,
            clock,
            calls: RefCell::default(),
            channels,
            tasks: RefCell::default(),
            managed: Managed::default(),
            relay: RefCell::default(),
            streams: RefCell::default(),
            watches: RefCell::default(),
            timers: RefCell::default(),
            joined: JoinedGroups::default(),
            ready: RefCell::default(),
            polling: Cell::new((Task::NONE, core::ptr::null())),
            deadline: Cell::new(Time::NEVER),
            now: Cell::new(None),
            main_woken: Cell::new(true),
            stopped: Cell::new(None),
            driver: RefCell::default(),
        }
    }

    /// Makes this the loop of its thread. Returns false if the thread has another loop.
    pub(crate) fn settle(&'static self) -> bool {
        let free = CURRENT.get().is_none();
        if free {
            CURRENT.set(Some(self));
            current::set_loop(Some(self));
        }
        free
    }

    /// Removes the loop from its thread.
    pub(crate) fn leave(&self) {
        CURRENT.set(None);
        current::set_loop(None);
    }

    /// The time of the current turn; between turns, that of the clock.
    #[inline]
    pub fn now(&self) -> Time {
        self.now.get().unwrap_or_else(|| self.clock.now())
    }

    /// Records that a turn with this time has begun, or with `None` that it has ended.
    pub(crate) fn set_turn(&self, now: Option<Time>) {
        self.now.set(now);
    }

    /// The deadline that new calls inherit.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.deadline.get()
    }

    /// Runs `poll` as the poll of `task`, which has this waker.
    ///
    /// The task stays recorded afterwards. That is safe because the wakers of tasks live as long as
    /// the loop; for other wakers, see [`Local::forget_polling`].
    #[inline(always)]
    pub fn polling<R>(
        &self,
        task: Task,
        waker: &Waker,
        deadline: Time,
        poll: impl FnOnce() -> R,
    ) -> R {
        self.polling.set((task, waker.data()));
        self.deadline.set(deadline);
        let result = poll();
        self.deadline.set(Time::NEVER);
        result
    }

    /// Whether a task was polled since the last [`Local::take_polled`].
    #[inline]
    pub(crate) fn has_polled(&self) -> bool {
        !self.polling.get().1.is_null()
    }

    /// Takes the task that was polled last. Afterwards, none is recorded.
    pub(crate) fn take_polled(&self) -> Option<Task> {
        let last = self.polled();
        self.forget_polling();
        last
    }

    /// The task that is being polled, or was polled last.
    pub(crate) fn polled(&self) -> Option<Task> {
        let (task, _) = self.polling.get();
        (task != Task::NONE).then_some(task)
    }

    /// Clears the recorded task: after a panic, or when a waker is dropped.
    pub fn forget_polling(&self) {
        self.polling.set((Task::NONE, core::ptr::null()));
        self.deadline.set(Time::NEVER);
    }

    /// How to wake the task with `waker`. If the loop polls it, this needs no clone.
    #[inline]
    pub(crate) fn waiter(&self, waker: &Waker) -> Waiter {
        match self.task_of(waker) {
            Some(task) => Waiter::Task(task),
            None => Waiter::Waker(waker.clone()),
        }
    }

    /// The task that is being polled, if `waker` is its waker.
    #[inline(always)]
    fn task_of(&self, waker: &Waker) -> Option<Task> {
        let (task, data) = self.polling.get();
        (core::ptr::eq(data, waker.data()) && !data.is_null()).then_some(task)
    }

    #[inline]
    pub(crate) fn make_ready(&self, task: Task) {
        self.ready.borrow_mut().push(task);
        self.kick();
    }

    /// Ensures that another turn follows.
    #[inline]
    pub(crate) fn kick(&self) {
        if self.now.get().is_none() {
            self.kick_driver();
        }
    }

    #[cold]
    fn kick_driver(&self) {
        let driver = self.driver.borrow().clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Queues a call.
    #[inline(always)]
    pub fn begin_with(&self, head: impl FnOnce() -> CallHead, request: MsgBuf) -> CallKey {
        let call = self.calls.borrow_mut().begin_with(head, request);
        self.kick();
        call
    }

    /// The outcome of a call. If there is none yet, its task is woken later.
    #[inline]
    pub fn poll_call(&self, call: CallKey, waker: &Waker) -> Option<Outcome> {
        let task = self.task_of(waker);
        match self.calls.borrow_mut().poll(call, task) {
            Ok(outcome) => return Some(outcome),
            Err(true) => return None,
            Err(false) => {}
        }
        self.await_call(call, waker);
        None
    }

    #[cold]
    #[inline(never)]
    fn await_call(&self, call: CallKey, waker: &Waker) {
        // Cloning a waker runs application code, so no cell may be borrowed meanwhile.
        let waiter = self.waiter(waker);
        let earlier = self.calls.borrow_mut().set_waiter(call.place(), waiter);
        drop(earlier);
    }

    /// Handles the drop of a call's future.
    pub fn give_up(&self, call: CallKey) {
        let dropped = self.calls.borrow_mut().give_up(call);
        drop(dropped);
        self.kick();
    }

    /// Ends a call.
    #[inline]
    pub(crate) fn finish(&self, place: u32, outcome: Result<MsgBuf, Status>) {
        let waiter = self.calls.borrow_mut().finish(place, outcome);
        self.finished(place, waiter);
    }

    /// Notifies the waiter of a call that has ended.
    #[inline(always)]
    pub(crate) fn finished(&self, place: u32, waiter: Waiter) {
        match waiter {
            Waiter::Task(task) if task.kind != Task::MAIN.kind => {
                self.ready.borrow_mut().push(task);
            }
            waiter => self.finished_otherwise(place, waiter),
        }
    }

    #[inline(never)]
    fn finished_otherwise(&self, place: u32, waiter: Waiter) {
        let take = || self.calls.borrow_mut().take_done(place).expect("the call has just ended");
        match waiter {
            Waiter::RemoteCompletion(remote) => remote.finish(take()),
            Waiter::Relay(tag) => self.relay.borrow_mut().finish(tag, take()),
            Waiter::Returned(tag) => self.relay.borrow_mut().give_back(tag, take()),
            waiter => self.wake(waiter),
        }
    }

    /// Wakes a waiter in this thread.
    #[inline]
    pub(crate) fn wake(&self, waiter: Waiter) {
        match waiter {
            Waiter::Nobody | Waiter::RemoteCompletion(_) => {}
            // Their outcomes are taken at once.
            Waiter::Relay(_) | Waiter::Returned(_) => {}
            Waiter::Task(Task::MAIN) => self.main_woken.set(true),
            Waiter::Task(task) => self.ready.borrow_mut().push(task),
            Waiter::Waker(waker) => waker.wake(),
        }
    }

    /// Ends the calls that could not be sent, and those without further retries.
    pub(crate) fn finish_failed(&self) {
        loop {
            let over = self.calls.borrow_mut().over.pop();
            let Some((place, outcome)) = over else { break };
            self.finish(place, outcome);
        }
        let completions = core::mem::take(&mut self.channels.borrow_mut().completions);
        completions.into_iter().for_each(|(asker, outcome)| asker.finish(outcome));
    }

    /// Runs the commands of other threads.
    #[cold]
    pub fn run_commands(&self) {
        for command in self.shared.take_commands() {
            match command {
                Command::Wake(Task::MAIN) => self.main_woken.set(true),
                Command::Wake(task) => self.ready.borrow_mut().push(task),
                Command::GiveUp(call) => self.give_up(call),
                Command::LeaveStream { key, side } => self.leave_stream(key, side),
                Command::Stream(remote) => self.read_mailbox(&remote),
                Command::Begin(call) => self.begin_remote(*call),
                Command::Move { call, remote } => self.move_to_remote(call, remote),
                Command::Timer { timeout, remote } => self.add_timer(timeout, &remote),
                Command::Routers(asker) => self.joined.ask(asker),
                Command::Rename { group, routers } => self.joined.rename(group, routers),
                Command::Stop { grace } => {
                    self.stopped.set(Some(grace));
                    self.main_woken.set(true);
                }
                command => self.channels.borrow_mut().read(command, self.now()),
            }
        }
    }

    /// Starts a call for another thread.
    fn begin_remote(&self, call: RemoteCall) {
        let RemoteCall { call: NewCall { mut head, request }, timeout, remote } = call;
        head.deadline = timeout.map_or(Time::NEVER, |timeout| self.now() + timeout);
        let call = self.calls.borrow_mut().begin_with(|| head, request);
        self.move_to_remote(call, remote);
    }

    /// Handles a call whose future was polled on another thread.
    fn move_to_remote(&self, call: CallKey, remote: Arc<RemoteCompletion>) {
        if !remote.settle(call) {
            return self.give_up(call);
        }
        let done = self.calls.borrow_mut().take_outcome(call);
        if let Some(outcome) = done {
            return remote.finish(outcome);
        }
        let earlier =
            self.calls.borrow_mut().set_waiter(call.place(), Waiter::RemoteCompletion(remote));
        drop(earlier);
    }

    /// Notifies all waiters that the loop has ended.
    pub(crate) fn tell_end(&self) {
        self.shared.close();
        self.joined.end();
        let waiters = self.calls.borrow_mut().take_waiters();
        for waiter in waiters {
            match waiter {
                Waiter::Waker(waker) => waker.wake(),
                Waiter::RemoteCompletion(remote) => remote.finish(Err(loop_gone())),
                Waiter::Nobody | Waiter::Task(_) => {}
                Waiter::Relay(_) | Waiter::Returned(_) => {}
            }
        }
        self.end_streams();
        self.unwatch_all();
        self.end_timers();
        let askers = self.channels.borrow_mut().take_askers();
        askers.into_iter().for_each(|asker| asker.finish(Err(loop_gone())));
    }

    /// Frees the contents of the tables. The loop has ended and its endpoint is gone, so nothing
    /// accesses them any more.
    pub(crate) fn clear(&self) {
        // Drops run application code, so no cell may be borrowed meanwhile.
        let channels = Channels::new(self.shared.clone(), 0);
        drop(self.channels.replace(channels));
        drop(self.calls.take());
        drop(self.streams.take());
        drop(self.tasks.take());
        drop(self.relay.take());
        drop(self.watches.take());
        drop(self.timers.take());
        drop(self.ready.take());
        drop(self.driver.take());
        self.managed.clear();
    }
}
