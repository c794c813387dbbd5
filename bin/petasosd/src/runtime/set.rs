//! The runtimes that there are: added, removed and pinned while calls run, and which applications
//! they get.
//!
//! A runtime is *shared*, or *dedicated* to the applications of a name. An application that
//! attaches gets the runtime that has the fewest applications, of those dedicated to its name if
//! there are any, otherwise of the shared ones. An application moves to another runtime by
//! attaching once more ([`moving`](super::moving)).
//!
//! A runtime that is removed is left by its applications. Its thread then sleeps, and the next
//! runtime that is added has it.

use std::sync::Arc;
use std::time::Duration;

use petasos_attach::Applicant;
use petasos_base::Time;
use petasos_engine::Application as Number;
use petasos_service::HubId;
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use super::moving::Moving;
use super::threads::Shared;
use super::{Boxes, Runtime};
use crate::common::{Common, note_cpus};
use crate::ports::owner;

/// The most runtimes.
pub const RUNTIMES_MAX: usize = 256;

/// A runtime, as operators have set it.
pub struct Row {
    pub id: HubId,
    /// None of the first, which the daemon's thread runs.
    pub shared: Option<Arc<Shared>>,
    pub thread: Pid,
    /// The name of the applications that it is for.
    pub dedicated_to: Option<String>,
    /// The processor that it runs on, if it runs on one alone.
    pub cpu: Option<u32>,
    pub state: State,
}

/// How a runtime stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Runs,
    /// It was removed, and still has applications.
    Leaves,
    /// It was removed.
    Spare,
}

/// The runtimes that there are.
pub struct RuntimeSet {
    /// By number.
    rows: Vec<Row>,
    common: Arc<Common>,
    boxes: Arc<Boxes>,
    spin: Duration,
    /// What a thread may run on that is not pinned.
    cpus: CpuSet,
    pub moving: Vec<Moving>,
    /// What is under way of an application that moves has so long to end.
    pub drain: Duration,
}

impl RuntimeSet {
    /// The first runtime, which the calling thread runs. Others look for work for `spin` before
    /// they sleep.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn new(first: &Runtime, [spin, drain]: [Duration; 2]) -> Result<RuntimeSet, String> {
        let thread = rustix::thread::gettid();
        let cpus = sched_getaffinity(Some(thread));
        let cpus = cpus.map_err(|error| format!("cannot see the processors: {error}"))?;
        note_cpus(cpus);
        let (shared, dedicated_to, cpu, state) = (None, None, None, State::Runs);
        let row = Row { id: first.id(), shared, thread, dedicated_to, cpu, state };
        let (common, moving) = (first.common.clone(), Vec::new());
        let boxes = first.post.boxes().clone();
        Ok(RuntimeSet { rows: vec![row], common, boxes, spin, cpus, moving, drain })
    }

    /// Those that there are, by number.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.state != State::Spare)
    }

    /// The threads besides the daemon's.
    pub fn threads(&self) -> impl Iterator<Item = &Arc<Shared>> {
        self.rows.iter().filter_map(|row| row.shared.as_ref())
    }

    /// The thread of a runtime; none of the first.
    pub fn thread(&self, id: HubId) -> Option<&Arc<Shared>> {
        self.rows.iter().find(|row| row.id == id)?.shared.as_ref()
    }

    /// A runtime that there is.
    pub fn row(&self, id: HubId) -> Option<&Row> {
        self.rows().find(|row| row.id == id)
    }

    fn row_mut(&mut self, id: HubId) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.id == id && row.state != State::Spare)
    }

    /// Adds a runtime: shared, or for the applications of a name.
    ///
    /// # Errors
    /// There are as many as may be, or what the system refuses.
    pub fn add(&mut self, dedicated_to: Option<&str>) -> Result<HubId, String> {
        let dedicated_to = dedicated_to.map(str::to_owned);
        if let Some(spare) = self.rows.iter_mut().find(|row| row.state == State::Spare) {
            (spare.dedicated_to, spare.state) = (dedicated_to, State::Runs);
            return Ok(spare.id);
        }
        if self.rows.len() >= RUNTIMES_MAX {
            return Err(format!("there are at most {RUNTIMES_MAX} runtimes"));
        }
        let shared = Shared::start((&self.common, &self.boxes), self.spin)?;
        let (id, thread) = (shared.id(), shared.thread());
        // A thread begins where the one that starts it may run.
        let _ = sched_setaffinity(Some(thread), &self.cpus);
        let (shared, cpu, state) = (Some(shared), None, State::Runs);
        self.rows.push(Row { id, shared, thread, dedicated_to, cpu, state });
        Ok(id)
    }

    /// Removes a runtime once its applications have left.
    pub fn begin_leaving(&mut self, id: HubId) {
        if let Some(row) = self.row_mut(id) {
            row.state = State::Leaves;
        }
    }

    /// Removes a runtime that has no applications, if it is to be.
    pub fn end_leaving(&mut self, id: HubId) {
        let _unpinned = self.pin(id, None);
        if let Some(row) = self.row_mut(id) {
            (row.state, row.dedicated_to) = (State::Spare, None);
        }
    }

    /// Lets a runtime run on one processor alone, or on any. Gives where it ran before.
    ///
    /// # Errors
    /// There is no such runtime, or what the system refuses.
    pub fn pin(&mut self, id: HubId, cpu: Option<u32>) -> Result<Option<u32>, String> {
        let any = self.cpus;
        let row = self.row_mut(id).ok_or_else(|| format!("there is no runtime {}", id.0))?;
        let cpus = match cpu {
            None => any,
            Some(cpu) if cpu as usize >= CpuSet::MAX_CPU => return Err(no_processor(cpu)),
            Some(cpu) => {
                let mut one = CpuSet::new();
                one.set(cpu as usize);
                one
            }
        };
        let set = sched_setaffinity(Some(row.thread), &cpus);
        set.map_err(|error| match cpu {
            // No processor of the set is one that this process may use.
            Some(cpu) if error == Errno::INVAL => no_processor(cpu),
            Some(cpu) => format!("runtime {} cannot run on processor {cpu}: {error}", id.0),
            None => format!("runtime {} cannot run on all processors: {error}", id.0),
        })?;
        Ok(std::mem::replace(&mut row.cpu, cpu))
    }

    /// The runtimes that an application of a name may get.
    pub fn candidates(&self, name: &str) -> Vec<HubId> {
        let runs = || self.rows.iter().filter(|row| row.state == State::Runs);
        let its = |row: &&Row| row.dedicated_to.as_deref() == Some(name);
        let shared = |row: &&Row| row.dedicated_to.is_none();
        let mut found: Vec<HubId> = runs().filter(its).map(|row| row.id).collect();
        if found.is_empty() {
            found.extend(runs().filter(shared).map(|row| row.id));
        }
        found
    }

    /// Whether applications move, or runtimes are left.
    pub fn is_changing(&self) -> bool {
        !self.moving.is_empty() || self.rows.iter().any(|row| row.state == State::Leaves)
    }

    /// The applications of which one attaches once more, as it is told to: several if a process has
    /// several of one name. Gives their numbers until now, and where they go if that was said.
    pub fn awaited(&self, applicant: &Applicant) -> (Vec<Number>, Option<HubId>) {
        let (who, hello) = (owner(applicant.credentials()), applicant.hello());
        let says_so = hello.may_be_moving();
        let is_it =
            |moving: &&Moving| says_so && moving.name == hello.name.as_str() && moving.owner == who;
        let meant: Vec<&Moving> = self.moving.iter().filter(is_it).collect();
        let runs = |to: &HubId| self.row(*to).is_some_and(|row| row.state == State::Runs);
        let to = meant.iter().find_map(|moving| moving.to.filter(runs));
        (meant.iter().map(|moving| moving.number).collect(), to)
    }

    /// Whether an application moves from a runtime, or it is to be left.
    pub fn is_changing_at(&self, id: HubId) -> bool {
        let leaves = |row: &Row| row.state == State::Leaves;
        self.moving.iter().any(|moving| moving.from == id) || self.row(id).is_some_and(leaves)
    }

    /// Goes on with those that move from a runtime. Says whether anything has happened.
    pub fn move_on(&mut self, runtime: &mut Runtime, now: Time) -> bool {
        let mut has_moved = false;
        let from = runtime.id();
        self.moving.retain(|moving| {
            let goes_on = moving.from != from || moving.goes_on(runtime, now);
            if !goes_on {
                runtime.common.kept.forget(Some(moving.number));
                has_moved = true;
            }
            goes_on
        });
        // Calls that others carry through it end there: its thread goes on.
        let leaves = self.row(from).is_some_and(|row| row.state == State::Leaves);
        let is_left = leaves && runtime.members.is_empty();
        if is_left {
            self.end_leaving(from);
            eprintln!("petasosd: runtime {} is removed", from.0);
        }
        has_moved | is_left
    }
}

/// What is wrong with a processor that the service cannot run on.
pub fn no_processor(cpu: u32) -> String {
    format!("there is no processor {cpu} that this process may use")
}

impl Row {
    /// How long its thread has had a processor, in ns, if the system tells.
    pub fn processor_ns(&self) -> Option<u64> {
        let path = format!("/proc/self/task/{}/schedstat", self.thread.as_raw_nonzero());
        let text = std::fs::read_to_string(path).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }
}
