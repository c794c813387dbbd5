//! The daemon: whoever comes, says something, or is to be told something.
//!
//! Its thread runs the first runtime, and with it the transport, and does what operators and other
//! processes want. It looks for work for a while after it last found some, and then sleeps until a
//! socket is readable or a policy wants to work (ADR 18). Further runtimes have threads of their
//! own ([`threads`](crate::runtime::threads)).

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use petasos_attach::hello::HANDOVER_VERSION;
use petasos_attach::reason::RefuseCode;
use petasos_attach::{Applicant, Listener};
use petasos_base::sync::Ordering;
use petasos_base::{Time, random_seed};
use petasos_service::{Application, ApplicationLimits, Host, SchemaLimits, Schemas};
use petasos_shm::HeapKind;
use rustix::event::{PollFd, PollFlags};

use crate::admin::{Desk, recorders};
use crate::common::Common;
use crate::control::{Control, World};
use crate::member::{GROW_BYTES, Heaps, Member};
use crate::names::Judged;
use crate::ports::owner;
use crate::processor::Allowance;
use crate::quotas::Quota;
use crate::runtime::set::RuntimeSet;
use crate::runtime::threads::Shared;
use crate::runtime::{Boxes, Runtime, wait};
use crate::takeover::Predecessor;
use crate::transport::{Listeners, TransportConfig, TransportSet};

mod leaving;
mod placing;
mod replaced;

pub use replaced::Takeover;

/// So long nobody attaches after the system had no descriptor or memory left for it.
const LISTENER_PAUSE: Duration = Duration::from_secs(1);
/// The longest sleep while operators may want more, a process takes over or applications move.
const BUSY_SLEEP: Duration = Duration::from_millis(1);

/// The managed service of a host.
pub struct Daemon {
    listener: Listener,
    /// The runtime that this thread runs.
    first: Runtime,
    runtimes: RuntimeSet,
    common: Arc<Common>,
    control: Control,
    desk: Desk,
    /// To and from other hosts, if there is one.
    transport: Option<TransportSet>,
    /// When others may attach again, after the system could not let them.
    listener_due: Time,
    takeover: Takeover,
    /// There is nothing left to do here.
    has_left: bool,
    /// What is under way has so long to end when there is a successor.
    drain: Duration,
}

impl Daemon {
    /// A service with what its operators have set, and them. A runtime looks for work for `spin`
    /// before it sleeps.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(
        listener: Listener,
        (control, desk): (Control, Desk),
        mut takeover: Takeover,
        [spin, drain]: [Duration; 2],
    ) -> Result<Daemon, String> {
        let common = Common::new(Host::new(SchemaLimits::default()));
        let before = takeover.predecessor.iter_mut().flat_map(Predecessor::take_ports);
        before.for_each(|kept| common.kept.keep(kept));
        let first = Runtime::new((&common, &Arc::<Boxes>::default()), spin);
        let first = first.map_err(|error| format!("cannot start: {error}"))?;
        let runtimes = RuntimeSet::new(&first, [spin, drain])?;
        Ok(Daemon {
            listener,
            first,
            runtimes,
            common,
            control,
            desk,
            transport: None,
            listener_due: Time::ZERO,
            takeover,
            has_left: false,
            drain,
        })
    }

    /// Begins with schemas that are known. To be called before anybody attaches.
    pub fn know(&mut self, schemas: Schemas) {
        *self.common.host.schemas() = schemas;
    }

    /// Lets policies go on from what those of the process before this one have counted, if this one
    /// takes over. To be called before anybody attaches, and before it is open. What cannot go on
    /// begins anew.
    pub fn go_on(&mut self) {
        let Some(predecessor) = &mut self.takeover.predecessor else { return };
        let states = predecessor.take_states();
        let gone_on = states.and_then(|text| self.control.go_on(&text, &self.common.host));
        if let Err(why) = gone_on {
            eprintln!("petasosd: all policies begin anew, without their states: {why}");
        }
    }

    /// Adds a runtime: shared, or for the applications of a name.
    ///
    /// # Errors
    /// There are as many as may be, or what the system refuses.
    pub fn add_runtime(&mut self, dedicated_to: Option<&str>) -> Result<(), String> {
        self.runtimes.add(dedicated_to).map(drop)
    }

    /// Lets the runtimes run on one processor each, in their order. Those for which there is none
    /// run on any.
    ///
    /// # Errors
    /// There is no such processor.
    pub fn pin(&mut self, cpus: &[u32]) -> Result<(), String> {
        let ids: Vec<_> = self.runtimes.rows().map(|row| row.id).collect();
        if cpus.len() > ids.len() {
            return Err(format!("--cpus has {} processors for {} runtimes", cpus.len(), ids.len()));
        }
        for (id, cpu) in ids.into_iter().zip(cpus) {
            self.runtimes.pin(id, Some(*cpu))?;
        }
        Ok(())
    }

    /// Lets calls leave this host and come in: at sockets that were taken over, if any were.
    ///
    /// # Errors
    /// A text that says why they cannot.
    pub fn open(
        &mut self,
        config: TransportConfig,
        listeners: Option<Vec<Listeners>>,
    ) -> Result<(), String> {
        let transport = TransportSet::new(config, listeners, &mut self.first.hub)?;
        self.common.published.begin();
        transport.announce(&[]);
        self.control.grpc_refusals = transport.grpc_refusals();
        self.transport = Some(transport);
        Ok(())
    }

    /// Runs until a successor has taken over and nothing is left to do, or something is broken that
    /// the system does.
    ///
    /// # Errors
    /// What.
    pub fn run(mut self) -> Result<(), String> {
        let mut idle_since = None;
        loop {
            let now = self.first.now();
            if self.turn(now)? {
                if self.has_left {
                    let recorders = self.with_world(|world| recorders(world));
                    self.desk.end(recorders);
                    return Ok(());
                }
                (idle_since, self.first.is_idle) = (None, false);
                continue;
            }
            self.first.is_idle = true;
            let since = *idle_since.get_or_insert(now);
            if now - since >= self.first.yielder.spin(now) {
                self.sleep(now)?;
                idle_since = None;
            } else {
                // An application may share the processor.
                self.first.rest();
            }
        }
    }

    fn turn(&mut self, now: Time) -> Result<bool, String> {
        let mut has_moved = false;
        if self.first.looks(now) {
            has_moved = self.hear_sockets(now)?;
            if has_moved {
                self.first.warm(now);
            }
        }
        let transport = self.transport.as_mut();
        has_moved |= self
            .first
            .turn(now, |hub, now| transport.is_some_and(|transport| transport.turn(hub, now)));
        self.note_published();
        Ok(has_moved)
    }

    /// Lets those be told that they serve whom others can call now.
    fn note_published(&mut self) {
        let changes = self.transport.as_ref().and_then(TransportSet::published);
        if changes.is_some_and(|changes| self.common.published.note(changes)) {
            self.runtimes.threads().for_each(|thread| thread.wake());
        }
    }

    fn hear_sockets(&mut self, now: Time) -> Result<bool, String> {
        let mut has_moved = self.hear_takeover(now);
        while now >= self.listener_due {
            match self.listener.poll(now) {
                Ok(Some(applicant)) => {
                    let applicant = match &mut self.takeover.predecessor {
                        Some(predecessor) => predecessor.hold(applicant),
                        None => Some(applicant),
                    };
                    applicant.into_iter().for_each(|applicant| self.accept(applicant));
                    has_moved = true;
                }
                Ok(None) => break,
                // The system has no descriptor or memory left now; who is attached goes on.
                Err(error) => {
                    eprintln!("petasosd: nobody can attach for a while: {error}");
                    self.listener_due = now + LISTENER_PAUSE;
                }
            }
        }
        has_moved |= self.serve_operators(now);
        has_moved |= self.move_on(now);
        has_moved |= self.first.hear_sockets(now);
        while let Some(bound) = self.poll_bound() {
            self.control.keeper.iter().for_each(|keeper| keeper.used(bound.clone()));
        }
        self.has_left = self.leave(now);
        Ok(has_moved | self.has_left)
    }

    /// Does what operators want, and holds engines to their budgets.
    fn serve_operators(&mut self, now: Time) -> bool {
        let job = self.desk.next_job();
        let has_job = job.is_some();
        self.control.forget_kept(now);
        let is_leaving = self.takeover.leaving.is_some();
        self.control.is_handing_over = is_leaving || self.takeover.giver.has_offered();
        let is_due = self.control.policies().have_budgets() && now >= self.control.meter.due();
        if has_job || is_due {
            self.with_world(|world| {
                job.into_iter().for_each(|job| job(world));
                world.check_budgets(now);
            });
            let have_budgets = self.control.policies().have_budgets();
            self.common.has_budgets.store(have_budgets, Ordering::Relaxed);
        }
        has_job
    }

    /// Does something with all runtimes, between two turns, and what applies to them.
    fn with_world<R>(&mut self, work: impl FnOnce(&mut World<'_>) -> R) -> R {
        let threads: Vec<Arc<Shared>> = self.runtimes.threads().cloned().collect();
        let others = threads.iter().map(|thread| thread.borrow()).collect();
        let (first, set, control) = (&mut self.first, &mut self.runtimes, &mut self.control);
        work(&mut World { first, others, set, control, transport: self.transport.as_mut() })
    }

    /// Goes on with applications that move, and runtimes that are left.
    fn move_on(&mut self, now: Time) -> bool {
        if !self.runtimes.is_changing() {
            return false;
        }
        let mut has_moved = self.runtimes.move_on(&mut self.first, now);
        let threads = self.runtimes.threads();
        let changing = threads.filter(|thread| self.runtimes.is_changing_at(thread.id()));
        for thread in changing.cloned().collect::<Vec<Arc<Shared>>>() {
            has_moved |= self.runtimes.move_on(&mut thread.borrow(), now);
        }
        has_moved
    }

    fn poll_bound(&self) -> Option<Arc<petasos_service::KnownSchema>> {
        // Another runtime may be checking a schema, which takes time.
        self.common.host.try_schemas()?.poll_bound()
    }

    fn accept(&mut self, applicant: Applicant) {
        let (name, who) = (applicant.hello().name.to_string(), applicant.credentials());
        let is_leaving = self.takeover.leaving.is_some();
        if is_leaving && applicant.hello().versions.newest < HANDOVER_VERSION {
            return applicant.refuse(RefuseCode::Stopping, "attach again, to the successor");
        }
        let judged = self.control.names.judge(&name, who);
        if judged == Judged::Forbidden {
            eprintln!("petasosd: `{name}` is refused: the name is not for {who:?}");
            let why = "this name is for processes of another user or group";
            return applicant.refuse(RefuseCode::Forbidden, why);
        }
        let of_name = self.control.quotas.of(&name);
        let (terms, Quota { limits: quota, processor, .. }) = (of_name.terms(), of_name);
        let (moving, to) = self.runtimes.awaited(&applicant);
        let comes_over = applicant.hello().may_be_moving() && moving.is_empty();
        let comes_from = Some(owner(who)).filter(|_| comes_over);
        let mut attached = match applicant.accept(&terms) {
            Ok(attached) => attached,
            Err(error) => return eprintln!("petasosd: `{name}` cannot attach: {error}"),
        };
        let lane = attached.take_lanes().pop().expect("an application has a lane at least");
        if let Err(error) = attached.grow(HeapKind::Receive, GROW_BYTES) {
            eprintln!("petasosd: `{name}` gets no memory: {error}");
        }
        if is_leaving {
            attached.announce_successor();
        }
        let said = attached.limits();
        let lent_bytes_max = quota.lent_bytes_max.min(said.send.quota_bytes as usize / 4);
        let grant_bytes = said.grant_bytes;
        let limits = ApplicationLimits { grant_bytes, lent_bytes_max, ..quota };
        let mut place = placing::place(&mut self.first, &self.runtimes, (&name, to));
        let number = place.hub.next_number();
        let mut application =
            Application::new(number, &name, Heaps(attached), limits, random_seed());
        application.of_user(who.uid);
        if judged == Judged::Proved {
            application.prove_name();
        }
        let engines = self.control.engines_for(&name, comes_from);
        for (place, (policy, left)) in engines.into_iter().enumerate() {
            if let Err(error) = application.attach_again(place, policy, &left) {
                // Without its policies an application makes no calls.
                eprintln!("petasosd: `{name}` is refused: {error}");
                return;
            }
        }
        // At once: what is written to stderr is not collected, and the application waits.
        let said = format!("petasosd: `{name}` has attached: {who}\n");
        let _ = std::io::stderr().write_all(said.as_bytes());
        // Before it asks for its names.
        moving.into_iter().for_each(|before| place.hub.give_way(before, number));
        let now = place.now();
        let allowance = processor.map(|share| Allowance::new(share, now));
        place.add(application, Member::new(number, name, who, lane).with(allowance));
    }

    /// Sleeps until there may be something to do.
    fn sleep(&mut self, now: Time) -> Result<(), String> {
        if self.first.doze() {
            self.wait(now)?;
            self.first.slept(now);
        }
        self.first.rise();
        Ok(())
    }

    fn wait(&mut self, now: Time) -> Result<(), String> {
        let due = self.listener.next_due().into_iter().chain(self.takeover_due()).min();
        // The end is to come soon after the last call.
        let is_changing = self.takeover.giver.is_busy()
            || self.takeover.leaving.is_some()
            || self.runtimes.is_changing();
        let is_short = is_changing || self.desk.may_have_more();
        let longest = self.first.sleep_max(now);
        let longest = if is_short { longest.min(BUSY_SLEEP) } else { longest };
        let sleep = due.map_or(longest, |due| (due - now).min(longest));
        let rest = self.transport.as_mut().and_then(TransportSet::rest);
        let sleep = rest.map_or(sleep, |rest| rest.min(sleep));
        let mut fds = vec![PollFd::new(&self.desk, PollFlags::IN)];
        let others = self.takeover.giver.descriptors(now);
        let before = self.takeover.predecessor.iter().filter_map(Predecessor::descriptor);
        fds.extend(others.chain(before).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let others = self.transport.iter().flat_map(TransportSet::descriptors);
        fds.extend(others.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if now >= self.listener_due {
            fds.push(PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN));
        }
        fds.extend(self.first.descriptors());
        wait(&mut fds, sleep)?;
        if !fds[0].revents().is_empty() {
            self.desk.hush();
        }
        Ok(())
    }
}
