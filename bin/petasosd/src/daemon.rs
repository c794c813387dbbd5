//! The loop: whoever comes, says something, or is to be told something.
//!
//! One thread does all of it. It looks for work for a while after it last found some, and then
//! sleeps until a socket is readable or a policy wants to work (ADR 18).

use std::io::Write as _;
use std::os::fd::AsFd;
use std::time::Duration;

use petasos_attach::hello::HANDOVER_VERSION;
use petasos_attach::reason::RefuseCode;
use petasos_attach::{Applicant, Listener, Terms};
use petasos_base::{SystemClock, Time, Yielder, random_seed};
use petasos_service::{Application, ApplicationLimits, Hub, SchemaLimits, Schemas};
use petasos_shm::HeapKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::admin::Desk;
use crate::control::{Control, World};
use crate::member::{GROW_BYTES, Heaps, Member};
use crate::names::{Judged, Names};
use crate::takeover::Predecessor;
use crate::transport::{Listeners, Transport, TransportConfig};

mod leaving;
mod replaced;

pub use replaced::Takeover;

/// The longest sleep: after it, those who take too long are looked for.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// While there is work, sockets are looked at so often: a look is a system call, and calls do not
/// come through them.
const SOCKETS_EVERY: Duration = Duration::from_millis(1);
/// The same while an application has just said something there and nothing else is to do: who
/// attaches says several things, and waits for each answer.
const SOCKETS_WARM_EVERY: Duration = Duration::from_micros(5);
/// For so long after it has said something.
const WARM: Duration = Duration::from_micros(50);
/// So long nobody attaches after the system had no descriptor or memory left for it.
const LISTENER_PAUSE: Duration = Duration::from_secs(1);
/// The longest sleep while some application's ring is full, or operators may want more.
const FULL_SLEEP: Duration = Duration::from_millis(1);
/// Of so many turns, one measures what engines cost; with budgets, one of fewer.
const SAMPLE_EVERY: u32 = 61;
const SAMPLE_BUDGETS_EVERY: u32 = 7;

/// The managed service of a host.
pub struct Daemon {
    listener: Listener,
    names: Names,
    hub: Hub<Heaps>,
    members: Vec<Member>,
    control: Control,
    desk: Desk,
    /// To and from other hosts, if there is one.
    transport: Option<Transport>,
    clock: SystemClock,
    yielder: Yielder,
    /// When sockets were looked at last.
    looked_at: Time,
    /// Until then an application may say more there soon.
    warm_until: Time,
    /// The last turn found nothing to do.
    is_idle: bool,
    turns: u32,
    /// Some policy has a budget.
    has_budgets: bool,
    /// When others may attach again, after the system could not let them.
    listener_due: Time,
    takeover: Takeover,
    /// There is nothing left to do here.
    has_left: bool,
    /// What is under way has so long to end when there is a successor.
    drain: Duration,
}

impl Daemon {
    /// A service with what its operators have set, and them. It looks for work for `spin` before it
    /// sleeps.
    pub fn new(
        listener: Listener,
        names: Names,
        (control, desk): (Control, Desk),
        takeover: Takeover,
        [spin, drain]: [Duration; 2],
    ) -> Daemon {
        let (hub, clock) = (Hub::new(SchemaLimits::default()), SystemClock::default());
        let (members, looked_at, warm_until) = (Vec::new(), Time::ZERO, Time::ZERO);
        let (transport, listener_due) = (None, Time::ZERO);
        Daemon {
            listener,
            names,
            hub,
            members,
            control,
            desk,
            transport,
            clock,
            yielder: Yielder::new(spin),
            looked_at,
            warm_until,
            is_idle: false,
            listener_due,
            turns: 0,
            has_budgets: false,
            takeover,
            has_left: false,
            drain,
        }
    }

    /// Begins with schemas that are known. To be called before anybody attaches.
    pub fn know(&mut self, schemas: Schemas) {
        *self.hub.schemas() = schemas;
    }

    /// Lets calls leave this host and come in: at sockets that were taken over, if any were.
    ///
    /// # Errors
    /// A text that says why they cannot.
    pub fn open(
        &mut self,
        config: TransportConfig,
        listeners: Option<Listeners>,
    ) -> Result<(), String> {
        let transport = Transport::new(config, listeners, &mut self.hub)?;
        if let Some(address) = transport.local_address() {
            eprintln!("petasosd: reached by other hosts at petasos://{address}");
        }
        if let Some(target) = transport.local_grpc_target() {
            eprintln!("petasosd: reached by gRPC clients at {target}");
        }
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
            let now = self.clock.now();
            if self.turn(now)? {
                if self.has_left {
                    return Ok(());
                }
                (idle_since, self.is_idle) = (None, false);
                continue;
            }
            self.is_idle = true;
            let since = *idle_since.get_or_insert(now);
            if now - since >= self.yielder.spin(now) {
                self.sleep(now)?;
                idle_since = None;
            } else {
                // An application may share the processor.
                self.yielder.rest(|| self.clock.now());
            }
        }
    }

    fn turn(&mut self, now: Time) -> Result<bool, String> {
        let mut has_moved = false;
        let is_warm = self.is_idle && now < self.warm_until;
        if now >= self.looked_at + if is_warm { SOCKETS_WARM_EVERY } else { SOCKETS_EVERY } {
            self.looked_at = now;
            has_moved = self.hear_sockets(now)?;
            if has_moved {
                self.warm_until = now + WARM;
            }
        }
        has_moved |= self.each(now, |member, hub| member.hear(hub, now));
        self.turns = self.turns.wrapping_add(1);
        let every = if self.has_budgets { SAMPLE_BUDGETS_EVERY } else { SAMPLE_EVERY };
        has_moved |= match self.turns % every {
            0 => self.hub.turn_sampled(now, &|| self.clock.now()),
            _ => self.hub.turn(now),
        };
        if let Some(transport) = &mut self.transport {
            has_moved |= transport.turn(&mut self.hub, now);
        }
        has_moved |= self.each(now, Member::tell);
        Ok(has_moved)
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
        let (hub, members, control) = (&mut self.hub, &self.members[..], &mut self.control);
        let world = &mut World { hub, members, control };
        has_moved |= self.desk.serve(world);
        world.check_budgets(now);
        self.has_budgets = world.control.policies().have_budgets();
        let mut before = self.takeover.predecessor.take();
        has_moved |= self.each(now, |member, hub| member.hear_socket(hub, before.as_mut(), now));
        self.takeover.predecessor = before;
        while let Some(bound) = self.hub.schemas().poll_bound() {
            self.control.keeper.iter().for_each(|keeper| keeper.used(bound.clone()));
        }
        self.has_left = self.leave(now);
        Ok(has_moved | self.has_left)
    }

    /// Does something for each application, and gives those up for which it fails.
    fn each(
        &mut self,
        now: Time,
        mut what: impl FnMut(&mut Member, &mut Hub<Heaps>) -> Result<bool, String>,
    ) -> bool {
        let mut has_moved = false;
        self.members.retain_mut(|member| match what(member, &mut self.hub) {
            Ok(moved) => {
                has_moved |= moved;
                true
            }
            Err(why) => {
                eprintln!("petasosd: `{}` has ended: {why}", member.name);
                self.hub.remove(member.number, now);
                has_moved = true;
                false
            }
        });
        has_moved
    }

    fn accept(&mut self, applicant: Applicant) {
        let (name, who) = (applicant.hello().name.to_string(), applicant.credentials());
        let is_leaving = self.takeover.leaving.is_some();
        if is_leaving && applicant.hello().versions.newest < HANDOVER_VERSION {
            return applicant.refuse(RefuseCode::Stopping, "attach again, to the successor");
        }
        let judged = self.names.judge(&name, who);
        if judged == Judged::Forbidden {
            eprintln!("petasosd: `{name}` is refused: the name is not for {who:?}");
            let why = "this name is for processes of another user or group";
            return applicant.refuse(RefuseCode::Forbidden, why);
        }
        let quota = self.control.quotas.of(&name);
        let mut terms = Terms { lanes_max: 1, ..Terms::default() };
        // One stream does not take all that may be held.
        let held_bytes_max = quota.held_bytes_max as u64;
        terms.limits.grant_bytes = terms.limits.grant_bytes.min(held_bytes_max / 4).max(1);
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
        let (number, grant_bytes) = (self.hub.next_number(), attached.limits().grant_bytes);
        let limits = ApplicationLimits { grant_bytes, ..quota };
        let seed = random_seed();
        let mut application = Application::new(number, &name, Heaps(attached), limits, seed);
        application.of_user(who.uid);
        if judged == Judged::Proved {
            application.prove_name();
        }
        for (place, policy) in self.control.policies().of(&name).enumerate() {
            if let Err(error) = application.attach(place, policy) {
                // Without its policies an application makes no calls.
                eprintln!("petasosd: `{name}` is refused: {error}");
                return;
            }
        }
        // At once: what is written to stderr is not collected, and the application waits.
        let said = format!("petasosd: `{name}` has attached: {who}\n");
        let _ = std::io::stderr().write_all(said.as_bytes());
        self.hub.add(application);
        self.members.push(Member::new(number, name, who, lane));
    }

    /// Sleeps until there may be something to do.
    fn sleep(&mut self, now: Time) -> Result<(), String> {
        // All have to say that they sleep, and look once more; but who is not heard now.
        let hub = &mut self.hub;
        let may_sleep =
            self.members.iter_mut().all(|member| member.is_held_up(hub) || member.lane.doze());
        if may_sleep {
            self.wait(now)?;
            self.yielder.slept(self.clock.now() - now);
            // It may be a socket that has woken the service.
            self.looked_at = Time::ZERO;
        }
        for member in &mut self.members {
            member.rise();
        }
        Ok(())
    }

    fn wait(&mut self, now: Time) -> Result<(), String> {
        let due = self.listener.next_due().into_iter().chain(self.takeover_due());
        let due = due.chain([self.hub.wake_at()]).min();
        // Nobody tells when a full ring has room again.
        let hub = &mut self.hub;
        let is_full =
            self.members.iter().any(|member| member.is_backed_up || member.is_held_up(hub));
        // The end is to come soon after the last call.
        let is_changing = self.takeover.giver.is_busy() || self.takeover.leaving.is_some();
        let is_short = is_full || is_changing || self.desk.may_have_more();
        let longest = if is_short { FULL_SLEEP } else { SLEEP_MAX };
        let sleep = due.map_or(longest, |due| due - now).min(longest);
        let rest = self.transport.as_mut().and_then(Transport::rest);
        let sleep = rest.map_or(sleep, |rest| rest.min(sleep));
        let timeout =
            Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
        let mut fds = vec![PollFd::new(&self.desk, PollFlags::IN)];
        let others = self.takeover.giver.descriptors(now);
        let before = self.takeover.predecessor.iter().filter_map(Predecessor::descriptor);
        fds.extend(others.chain(before).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(self.transport.iter().map(|transport| PollFd::new(transport, PollFlags::IN)));
        if now >= self.listener_due {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        for member in &self.members {
            fds.push(PollFd::new(&member.lane, PollFlags::IN));
            let Some(application) = self.hub.heaps(member.number) else { continue };
            let attached = &application.0;
            let wants = if attached.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::from_borrowed_fd(attached.as_fd(), PollFlags::IN | wants));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("cannot wait: {error}")),
        }
        if !fds[0].revents().is_empty() {
            self.desk.hush();
        }
        Ok(())
    }
}
