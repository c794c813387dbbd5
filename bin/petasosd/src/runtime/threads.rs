//! The threads of runtimes, besides that of the daemon.
//!
//! A thread holds its runtime's lock over many turns, so that calls take none. Who wants to see or
//! change a runtime says so, and gets the lock between two turns ([`Shared::borrow`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use petasos_base::Time;
use petasos_base::sync::{AtomicBool, AtomicU32, Ordering};
use petasos_service::HubId;
use rustix::thread::Pid;

use super::{Bell, Boxes, Runtime, wait};
use crate::common::Common;

/// A runtime, as its thread and the daemon's share it.
pub struct Shared {
    id: HubId,
    runtime: Mutex<Runtime>,
    /// The daemon wants the lock.
    is_wanted: AtomicBool,
    bell: Arc<Bell>,
    load: Arc<AtomicU32>,
    /// The system's number of the thread.
    thread: Pid,
}

impl Shared {
    /// Starts a thread for another runtime.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start(
        shared: (&Arc<Common>, &Arc<Boxes>),
        spin: Duration,
    ) -> Result<Arc<Shared>, String> {
        let failed = |error| format!("cannot start another runtime: {error}");
        let runtime = Runtime::new(shared, spin).map_err(failed)?;
        let (id, bell, load) = (runtime.id(), runtime.bell.clone(), runtime.load.clone());
        let (tell, told) = std::sync::mpsc::channel::<Arc<Shared>>();
        let (say, said) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("petasosd-{}", id.0));
        let work = move || {
            // Nobody hears it if the daemon has ended.
            let _ = say.send(rustix::thread::gettid());
            if let Ok(shared) = told.recv() {
                shared.run();
            }
        };
        thread.spawn(work).map_err(failed)?;
        let thread = said.recv().map_err(|_| "cannot start another runtime".to_owned())?;
        let is_wanted = AtomicBool::new(false);
        let runtime = Mutex::new(runtime);
        let shared = Shared { id, runtime, is_wanted, bell, load, thread };
        let shared = Arc::new(shared);
        let _ = tell.send(shared.clone());
        Ok(shared)
    }

    /// The system's number of its thread.
    pub fn thread(&self) -> Pid {
        self.thread
    }

    /// Its number.
    pub fn id(&self) -> HubId {
        self.id
    }

    /// How many applications the runtime has.
    pub fn load(&self) -> u32 {
        self.load.load(Ordering::Relaxed)
    }

    /// Wakes the thread, if it sleeps.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// The runtime, between two turns. Its thread waits until this is dropped.
    pub fn borrow(&self) -> MutexGuard<'_, Runtime> {
        self.is_wanted.store(true, Ordering::SeqCst);
        self.bell.ring();
        let runtime = self.lock();
        self.is_wanted.store(false, Ordering::SeqCst);
        runtime
    }

    fn lock(&self) -> MutexGuard<'_, Runtime> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        // Without this thread, its applications would wait for ever: they attach to the next
        // process instead.
        let _whole = EndsTheProcess;
        loop {
            while self.is_wanted.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let mut runtime = self.lock();
            if let Err(why) = self.run_until_wanted(&mut runtime) {
                eprintln!("petasosd: runtime {} has failed: {why}", self.id.0);
                std::process::abort();
            }
        }
    }

    fn run_until_wanted(&self, runtime: &mut Runtime) -> Result<(), String> {
        let mut idle_since: Option<Time> = None;
        // At least one turn: who borrows often does not keep it from working.
        loop {
            let now = runtime.now();
            let mut has_moved = runtime.looks(now) && runtime.hear_sockets(now);
            if has_moved {
                runtime.warm(now);
            }
            has_moved |= runtime.turn(now, |_, _| false);
            runtime.is_idle = !has_moved;
            if self.is_wanted.load(Ordering::Relaxed) {
                return Ok(());
            }
            if has_moved {
                idle_since = None;
                continue;
            }
            let since = *idle_since.get_or_insert(now);
            if now - since < runtime.yielder.spin(now) {
                runtime.rest();
                continue;
            }
            // The turn may have answered the bell that was rung for that.
            if runtime.doze() && !self.is_wanted.load(Ordering::SeqCst) {
                let sleep = runtime.sleep_max(now);
                wait(&mut runtime.descriptors(), sleep)?;
                runtime.slept(now);
            }
            runtime.rise();
            idle_since = None;
        }
    }
}

impl Runtime {
    /// Lets others have the processor for a moment, if they want it.
    pub fn rest(&mut self) {
        self.yielder.rest(|| self.clock.now());
    }

    /// Has slept since then. It may be a socket that has woken the thread.
    pub fn slept(&mut self, since: Time) {
        self.bell.hush();
        self.yielder.slept(self.clock.now() - since);
        self.look_soon();
    }
}

/// A runtime's thread that panics ends the process, as the daemon's does.
struct EndsTheProcess;

impl Drop for EndsTheProcess {
    fn drop(&mut self) {
        std::process::abort();
    }
}
