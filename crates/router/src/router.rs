//! The router's core: requests in, decisions out.

use std::collections::VecDeque;

use petasos_base::{Rng, Time, Wheel};

use crate::config::{Config, ConfigError};
use crate::health::Failures;
use crate::output::{Admission, Assignment, Counts, Event, Output, Refusal};
use crate::queue::{Head, Line, Queue};
use crate::request::{Affinity, Request};
use crate::ring::KeyRing;
use crate::shared::Shared;
use crate::worker::{WorkerId, WorkerState};
use crate::workers::Workers;

/// Timers are this precise: what they are for takes milliseconds.
const TIMER_SLOT_NS: u64 = 1 << 17;
const TIMER_REACH_NS: u64 = 500_000_000;
/// How often a worker is chosen for a request before it waits, while others take the slots.
const TRIES: u32 = 8;

/// Decides which worker gets which request, and when. `T` stands for a request.
///
/// Methods are of four kinds: getters; commands of the operator ([`Router::drain`] and others);
/// inputs, `handle_*`; and outputs, [`Router::poll`] and [`Router::poll_event`]. After each input
/// or command, or after a batch of them with feedback first, the outputs have to be taken until
/// there are none. [`Router::handle_timeout`] has to be called at [`Router::next_timeout`]. Times
/// must not decrease.
#[derive(Debug)]
pub struct Router<T> {
    pub(crate) config: Config,
    pub(crate) workers: Workers,
    /// Of each place.
    pub(crate) failures: Box<[Failures]>,
    pub(crate) ring: KeyRing,
    pub(crate) timers: Wheel<u16>,
    /// Places whose timers are due, between two steps of their handling.
    pub(crate) due: Vec<u16>,
    pub(crate) events: VecDeque<Event>,
    /// Probes to send, with their numbers.
    pub(crate) probes: VecDeque<(WorkerId, u64)>,
    pub(crate) counts: Counts,
    pub(crate) queue: Queue<T>,
    /// Others who give slots.
    pub(crate) shared: Option<Shared>,
}

impl<T> Router<T> {
    /// A router without workers.
    ///
    /// # Errors
    /// If the configuration is wrong.
    pub fn new(config: &Config) -> Result<Router<T>, ConfigError> {
        config.check()?;
        let places = config.workers_max;
        Ok(Router {
            workers: Workers::new(config),
            failures: vec![Failures::default(); places].into(),
            ring: KeyRing::new(places, config.keys.places),
            timers: Wheel::new(TIMER_SLOT_NS, TIMER_REACH_NS),
            due: Vec::with_capacity(places),
            events: VecDeque::with_capacity(places),
            probes: VecDeque::with_capacity(places),
            counts: Counts::default(),
            queue: Queue::new(config.waiting_max),
            config: config.clone(),
            shared: None,
        })
    }

    /// Takes a request. `now` may be earlier than that of the call before: when a request came that
    /// has waited elsewhere since.
    #[inline]
    pub fn handle_request(&mut self, now: Time, mut request: Request<T>) -> Admission<T> {
        self.counts.requests += 1;
        if request.expires <= now {
            self.counts.expired += 1;
            return Admission::Refused(request.token, Refusal::Expired);
        }
        if !self.workers.has_willing(request.affinity) {
            self.counts.unwanted += 1;
            return Admission::Refused(request.token, Refusal::Nobody);
        }
        request.priority = request.priority.min(self.config.priority_max);
        let mut ages = false;
        if let Some(age_max) = self.config.waiting_age_max {
            let too_old = now + age_max;
            ages = too_old <= request.expires;
            request.expires = request.expires.min(too_old);
        }
        let mut admission = Admission::Admitted;
        if !self.queue.has_room(request.affinity) {
            self.counts.overflowed += 1;
            match self.queue.displace(request.affinity, request.priority) {
                Some(token) => admission = Admission::Displaced(token),
                None => return Admission::Refused(request.token, Refusal::Full),
            }
        }
        self.queue.push(now, request, ages);
        admission
    }

    /// Takes a request and decides about it at once, if nothing waits before it and a worker is
    /// free: what [`Router::handle_request`] and [`Router::poll`] together do, for less.
    ///
    /// # Errors
    /// If it is not given at once: what became of it.
    #[inline]
    pub fn route(
        &mut self,
        now: Time,
        request: Request<T>,
        rng: &mut Rng,
    ) -> Result<Assignment<T>, Admission<T>> {
        let is_plain = request.affinity == Affinity::Any && request.expires > now;
        let holds = self.config.hold.is_some() && self.workers.idle == 0;
        // Requests that wait for a primary that has no slot keep nobody else waiting.
        let is_later = self.queue.len() > 0
            && (self.queue.line_len(Line::Shared) > 0 || self.workers.free_primary().is_some());
        if !is_plain || holds || is_later {
            return Err(self.handle_request(now, request));
        }
        let chosen = match self.shared {
            None => self.workers.choose(rng),
            Some(_) => self.choose_shared(now, rng),
        };
        let Some(index) = chosen else { return Err(self.handle_request(now, request)) };
        self.counts.requests += 1;
        Ok(self.give(now, index, request.token))
    }

    /// A worker whose slot was taken, while others take slots as well.
    #[cold]
    fn choose_shared(&mut self, now: Time, rng: &mut Rng) -> Option<usize> {
        for _ in 0..TRIES {
            let index = self.workers.choose(rng)?;
            if self.take_slot(now, index) {
                return Some(index);
            }
        }
        None
    }

    /// The next decision; none if nothing can be decided now.
    #[inline]
    pub fn poll(&mut self, now: Time, rng: &mut Rng) -> Option<Output<T>> {
        if let Some((worker, number)) = self.probes.pop_front() {
            self.counts.probes += 1;
            return Some(Output::Probe { worker, number });
        }
        if self.queue.len() == 0 {
            return None;
        }
        if let Some((token, why)) = self.drop_expired(now).or_else(|| self.drop_unwanted()) {
            return Some(Output::Dropped(token, why));
        }
        let next = self.next_place(now, rng)?;
        match self.shared {
            None => Some(self.give_next(now, next)),
            Some(_) => self.give_next_shared(now, next, rng),
        }
    }

    /// Gives who is next to a worker, while others give as well.
    #[cold]
    fn give_next_shared(
        &mut self,
        now: Time,
        mut next: (Line, usize),
        rng: &mut Rng,
    ) -> Option<Output<T>> {
        for _ in 0..TRIES {
            if self.take_slot(now, next.1) {
                return Some(self.give_next(now, next));
            }
            next = self.next_place(now, rng)?;
        }
        None
    }

    /// The line whose head is next, and the worker that gets it.
    #[inline(always)]
    fn next_place(&mut self, now: Time, rng: &mut Rng) -> Option<(Line, usize)> {
        let line = match self.next_line(now) {
            None if self.recall(now) => self.next_line(now)?,
            line => line?,
        };
        let affinity = self.queue.head(line)?.affinity;
        let keys = (&self.ring, self.config.keys);
        let index = match affinity {
            Affinity::Primary => self.workers.free_primary(),
            Affinity::Key(key) if self.ring.is_used() => self.workers.choose_by_key(keys, key, rng),
            _ => self.workers.choose(rng),
        };
        Some((line, index.expect("a line's turn comes if a worker is free for it")))
    }

    #[inline(always)]
    fn give_next(&mut self, now: Time, (line, index): (Line, usize)) -> Output<T> {
        let token = self.queue.pop(line).expect("it has a head");
        Output::Give(self.give(now, index, token))
    }

    /// A request whose time is over, or that has waited as long as it may.
    #[inline]
    fn drop_expired(&mut self, now: Time) -> Option<(T, Refusal)> {
        if !self.queue.may_expire() {
            return None;
        }
        let (token, head) = self.queue.pop_expired(now)?;
        if head.ages {
            self.counts.aged += 1;
            return Some((token, Refusal::Aged));
        }
        self.counts.expired += 1;
        Some((token, Refusal::Expired))
    }

    /// A request that nobody will ever take: since it came, the last who would have has gone, or
    /// drains.
    #[inline]
    fn drop_unwanted(&mut self) -> Option<(T, Refusal)> {
        let is_unwanted = |(line, affinity): &(Line, Affinity)| {
            self.queue.line_len(*line) > 0 && !self.workers.has_willing(*affinity)
        };
        let lines = [(Line::Shared, Affinity::Any), (Line::Primary, Affinity::Primary)];
        let (line, _) = lines.into_iter().find(is_unwanted)?;
        self.counts.unwanted += 1;
        Some((self.queue.pop(line)?, Refusal::Nobody))
    }

    #[inline(always)]
    fn give(&mut self, now: Time, index: usize, token: T) -> Assignment<T> {
        self.counts.given += 1;
        let number = self.workers.give(now, index);
        self.watch(now, index);
        Assignment { token, worker: self.workers.id(index), number }
    }

    /// The line whose head goes next, if a worker is free for it. Between lines, priority and the
    /// order of arrival decide.
    #[inline]
    fn next_line(&self, now: Time) -> Option<Line> {
        let shared = self.queue.head(Line::Shared);
        let shared = shared.filter(|_| !self.workers.free.is_empty());
        let shared = shared.filter(|head| !self.holds(now, head));
        let primary = self.queue.head(Line::Primary);
        let primary = primary.filter(|_| self.workers.free_primary().is_some());
        match (shared, primary) {
            (Some(shared), Some(primary)) if primary.order < shared.order => Some(Line::Primary),
            (Some(_), _) => Some(Line::Shared),
            (None, Some(_)) => Some(Line::Primary),
            (None, None) => None,
        }
    }

    /// Whether the first of the shared line is held back, although workers have free slots: the
    /// next feedback may tell that one is idle.
    #[inline]
    fn holds(&self, now: Time, head: &Head) -> bool {
        let Some(hold) = self.config.hold else { return false };
        let is_short = self.queue.line_len(Line::Shared) <= hold.requests_max as usize;
        self.workers.idle == 0 && is_short && now < head.arrived + hold.time
    }

    /// When to call [`Router::handle_timeout`] at the latest, unless there is other input before.
    pub fn next_timeout(&self) -> Time {
        let expiry = if self.queue.may_expire() { self.queue.next_expiry() } else { Time::NEVER };
        let released = self.config.hold.and_then(|hold| {
            let head = self.queue.head(Line::Shared)?;
            Some(head.arrived + hold.time).filter(|_| !self.workers.free.is_empty())
        });
        self.timers.next_due().min(expiry).min(released.unwrap_or(Time::NEVER))
    }

    /// The next report about a worker.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether some worker will take requests, at some time.
    pub fn has_willing(&self) -> bool {
        self.workers.willing > 0
    }

    /// Whether a worker may get a request.
    pub fn has_free(&self) -> bool {
        !self.workers.free.is_empty()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How many requests all workers have.
    pub fn outstanding(&self) -> u64 {
        self.workers.outstanding
    }

    /// How often something has happened.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What is known of a member.
    pub fn worker(&self, worker: WorkerId) -> Option<WorkerState> {
        Some(self.workers.all[self.workers.index(worker)?].state())
    }

    /// The members, in the order of their places.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> {
        let members = &self.workers.members;
        let places = 0..self.workers.all.len();
        places.filter(|place| members.contains(*place)).map(|place| self.workers.id(place))
    }

    /// Who gets requests for the primary only.
    pub fn primary(&self) -> Option<WorkerId> {
        self.workers.primary
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}
