//! The application on each simulated host: client and server of the generated calls.
//!
//! It reports events to the [`Judge`], and does not judge them.

use core::cell::RefCell;
use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;

use petasos_base::{Rng, Time};
use petasos_endpoint::{
    CallError, CallId, CallSettings, Completion, Context, EnqueueError, Payload, RejectCode,
    Request, RequestHandle, SessionId,
};

use super::check::{Event, Judge, Life, Outcome, RequestName};
use super::message::{self, NUMBER_BYTES, Side};
use super::plan::{Method, NESTED_BIT, Plan, Workload};

/// State that all hosts of a cluster share: the judge, and the numbers of calls too short to carry
/// one.
pub(super) struct Shared {
    pub(super) judge: Judge,
    pub(super) workload: Workload,
    /// See [`Scenario::is_trusting`](super::Scenario::is_trusting).
    trusting: bool,
    /// Calls whose requests are too short for a number; each has its own method.
    tiny: Vec<u64>,
    /// The least number of packets that the calls so far need.
    pub(super) packets_needed: u64,
    pub(super) tally: Tally,
}

impl Shared {
    pub(super) fn new(judge: Judge, workload: Workload, trusting: bool) -> Rc<RefCell<Shared>> {
        let tally = Tally::default();
        Rc::new(RefCell::new(Shared {
            judge,
            workload,
            trusting,
            tiny: Vec::new(),
            packets_needed: 0,
            tally,
        }))
    }
}

petasos_base::counters! {
    /// The outcomes of a run's calls.
    pub struct Tally {
        /// Calls started.
        started,
        /// Calls answered.
        answered,
        /// Calls whose timeout passed.
        timeouts,
        /// Calls cancelled.
        cancelled,
        /// Calls whose peer failed.
        peer_failed,
        /// Calls that failed otherwise.
        failed_otherwise,
        /// Calls that were refused before they began, for lack of room.
        refused,
    }
}

/// Something to be done later.
enum Due {
    Answer { call: u64, handle: RequestHandle },
    Cancel { call: u64 },
}

pub(super) struct App {
    pub(super) life: Life,
    shared: Rc<RefCell<Shared>>,
    rng: Rng,
    /// Ready sessions, by the server that they lead to.
    pub(super) peers: BTreeMap<u32, (Life, Vec<SessionId>)>,
    calls: BTreeMap<u64, CallId>,
    due: BTreeMap<(Time, u64), Due>,
    /// Requests that wait for a nested call.
    waiting: BTreeMap<u64, (u64, RequestHandle)>,
    serial: u64,
    started: u64,
    next_start: Time,
    /// Requests that will never be answered.
    pub(super) silent: usize,
}

/// The method of all calls whose requests carry their number.
pub(super) const METHOD: u16 = 1;
/// A method without a handler.
const METHOD_UNKNOWN: u16 = 2;
/// The first method of calls whose requests are too short for a number.
pub(super) const METHODS_TINY: core::ops::Range<u16> = 16..8192;

impl App {
    pub(super) fn new(life: Life, seed: u64, shared: Rc<RefCell<Shared>>) -> App {
        App {
            life,
            shared,
            rng: Rng::new(seed),
            peers: BTreeMap::new(),
            calls: BTreeMap::new(),
            due: BTreeMap::new(),
            waiting: BTreeMap::new(),
            serial: 0,
            started: 0,
            next_start: Time::ZERO,
            silent: 0,
        }
    }

    /// Describes the work that remains.
    pub(super) fn describe(&self) -> String {
        let App { life, started, calls, due, waiting, next_start, .. } = self;
        let due: Vec<_> = due.keys().take(3).collect();
        let waiting: Vec<_> = waiting.iter().take(3).collect();
        format!(
            "{life:?} has started {started}, has {} calls open, {due:?} due, {waiting:?} waiting, \
             starts more at {next_start:?}",
            calls.len()
        )
    }

    /// Whether the host has nothing left to do except to serve.
    pub(super) fn is_done(&self) -> bool {
        let quota =
            self.peers.is_empty() || self.started >= self.shared.borrow().workload.calls_per_host;
        quota && self.calls.is_empty() && self.due.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn note(&self, now: Time, event: Event) {
        self.shared.borrow_mut().judge.note(now, &event);
    }

    fn plan(&self, call: u64) -> Plan {
        self.shared.borrow().workload.plan(call)
    }

    /// Does what is due, and starts calls. Returns when there will be more to do.
    pub(super) fn act(&mut self, cx: &mut Context<App>, now: Time) -> Time {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Due::Answer { call, handle } => answer(self, cx, now, call, handle),
                Due::Cancel { call } => self.cancel(cx, now, call),
            }
        }
        let starts_at = self.start_calls(cx, now);
        self.due.first_key_value().map_or(starts_at, |((at, _), _)| starts_at.min(*at))
    }

    fn cancel(&mut self, cx: &mut Context<App>, now: Time, call: u64) {
        if let Some(id) = self.calls.get(&call)
            && cx.cancel(*id)
        {
            self.note(now, Event::Cancelled { call });
        }
    }

    fn start_calls(&mut self, cx: &mut Context<App>, now: Time) -> Time {
        let (quota, window, think_nanos) = {
            let workload = &self.shared.borrow().workload;
            (workload.calls_per_host, workload.window, workload.think_nanos)
        };
        while self.started < quota && self.calls.len() < window && !self.peers.is_empty() {
            if now < self.next_start {
                return self.next_start;
            }
            if !self.start_any(cx, now) {
                self.next_start = now.plus_nanos(10_000);
                return self.next_start;
            }
            self.started += 1;
            self.next_start = now.plus_nanos(self.rng.below(2 * think_nanos + 1));
        }
        Time::NEVER
    }

    fn start_any(&mut self, cx: &mut Context<App>, now: Time) -> bool {
        let choice = self.rng.below(self.peers.len() as u64) as usize;
        let server = *self.peers.keys().nth(choice).expect("the choice is below their number");
        self.start(cx, now, server, 0).is_some()
    }

    /// Starts the next call, to `server`. Returns `None` if there is no room for it now.
    fn start(&mut self, cx: &mut Context<App>, now: Time, server: u32, nested: u64) -> Option<u64> {
        let life = u64::from(self.life.host) << 48 | u64::from(self.life.restarts & 0x7f) << 41;
        let call = life | nested | self.serial;
        let plan = self.plan(call);
        let method = self.method(call, &plan);
        let (server, session) = self.session(server, nested != 0);
        let mut request = cx.alloc(plan.request_bytes).ok()?;
        message::fill(call, Side::Request, request.as_mut_slice());
        let settings = CallSettings {
            timeout: plan.timeout,
            response_bytes_max: plan.response_bytes_max(),
            ..CallSettings::default()
        };
        match cx.enqueue_with(session, method, request, complete, call, &settings) {
            Ok(id) => {
                self.note_started(now, call, id, server, plan);
                Some(call)
            }
            Err(refused) => {
                cx.free(refused.request);
                self.refused(refused.error);
                None
            }
        }
    }

    /// Nested calls have their own session. If they waited behind calls that themselves wait for
    /// nested calls, hosts could wait for each other for ever.
    fn session(&mut self, server: u32, nested: bool) -> (Life, SessionId) {
        let (server, sessions) = &self.peers[&server];
        let (for_nested, others) = sessions.split_first().expect("a peer has sessions");
        let choice = self.rng.below(others.len().max(1) as u64) as usize;
        let session = others.get(choice).filter(|_| !nested).unwrap_or(for_nested);
        (*server, *session)
    }

    fn refused(&mut self, error: EnqueueError) {
        match error {
            EnqueueError::BacklogFull { .. } | EnqueueError::TooManyBytes { .. } => {
                self.shared.borrow_mut().tally.refused += 1;
            }
            // Damage that passes the checksums can turn a packet into a reset, which ends its
            // session. Then the call needs another session.
            EnqueueError::SessionFailed if self.shared.borrow().trusting => {
                self.shared.borrow_mut().tally.refused += 1;
            }
            // The application drops failed sessions before it starts another call.
            error => panic!("a call was refused without a cause: {error}"),
        }
    }

    fn method(&self, call: u64, plan: &Plan) -> u16 {
        if plan.method == Method::Unknown {
            return METHOD_UNKNOWN;
        }
        if plan.request_bytes >= NUMBER_BYTES {
            return METHOD;
        }
        let mut shared = self.shared.borrow_mut();
        // A refused call is repeated under its number, so it may be in the list already.
        let known = shared.tiny.iter().rposition(|known| *known == call);
        let at = known.unwrap_or_else(|| {
            shared.tiny.push(call);
            shared.tiny.len() - 1
        });
        assert!(at < METHODS_TINY.len(), "the scenario has too many calls for its tiny requests");
        METHODS_TINY.start + at as u16
    }

    fn note_started(&mut self, now: Time, call: u64, id: CallId, server: Life, plan: Plan) {
        self.serial += 1;
        self.calls.insert(call, id);
        if let Some(nanos) = plan.cancel_after_nanos {
            self.due.insert((now.plus_nanos(nanos), call), Due::Cancel { call });
        }
        let timeout_at = plan.timeout.map_or(Time::NEVER, |timeout: Duration| now + timeout);
        let client = self.life;
        let mut shared = self.shared.borrow_mut();
        shared.tally.started += 1;
        let payload = shared.workload.payload_bytes as usize;
        let packets = |bytes: usize| bytes.div_ceil(payload).max(1) as u64;
        // Each later packet of a response may need a pull; each later packet of a request may need
        // an acknowledgement.
        shared.packets_needed +=
            2 * packets(plan.request_bytes) + 2 * packets(plan.response_bytes) + 2;
        shared.judge.note(now, &Event::Started { call, client, server, plan, timeout_at });
    }

    fn call_of(&self, method: u16, request: &[u8]) -> Option<u64> {
        if method == METHOD {
            return message::number(request);
        }
        let at = method.checked_sub(METHODS_TINY.start)?;
        self.shared.borrow().tiny.get(usize::from(at)).copied()
    }

    fn count(&self, result: Result<(), CallError>) {
        let tally = &mut self.shared.borrow_mut().tally;
        *match result {
            Ok(()) => &mut tally.answered,
            Err(CallError::Timeout) => &mut tally.timeouts,
            Err(CallError::Cancelled) => &mut tally.cancelled,
            Err(CallError::PeerFailed | CallError::NotSent) => &mut tally.peer_failed,
            Err(_) => &mut tally.failed_otherwise,
        } += 1;
    }
}

/// The handler of every method.
pub(super) fn handle(app: &mut App, cx: &mut Context<App>, request: Request<'_>) {
    let Request { handle, method, payload } = request;
    let now = cx.now();
    let (session, number) = (handle.key().session(), handle.key().number());
    let request = RequestName(session.index(), session.generation(), number);
    let call = app.call_of(method, &payload);
    let Some(call) = call else {
        // Only damage that the checksum missed has this effect.
        app.note(now, Event::Executed { call: u64::MAX, server: app.life, request, right: false });
        free(cx, payload);
        return cx.reject(handle, RejectCode::Declined);
    };
    let plan = app.plan(call);
    let right =
        payload.len() == plan.request_bytes && message::is_right(call, Side::Request, &payload);
    app.note(now, Event::Executed { call, server: app.life, request, right });
    free(cx, payload);
    match plan.method {
        Method::Echo | Method::Overlong | Method::Unknown => answer(app, cx, now, call, handle),
        Method::Deferred => {
            let at = now.plus_nanos(plan.delay_nanos);
            app.due.insert((at, call), Due::Answer { call, handle });
        }
        Method::Silent => app.silent += 1,
        Method::Declined => cx.reject(handle, RejectCode::Declined),
        Method::Nested => match start_nested(app, cx, now) {
            Some(inner) => _ = app.waiting.insert(inner, (call, handle)),
            None => answer(app, cx, now, call, handle),
        },
    }
}

fn start_nested(app: &mut App, cx: &mut Context<App>, now: Time) -> Option<u64> {
    let count = app.peers.len() as u64;
    let choice = (count > 0).then(|| app.rng.below(count) as usize)?;
    let server = *app.peers.keys().nth(choice)?;
    app.start(cx, now, server, NESTED_BIT)
}

fn answer(app: &mut App, cx: &mut Context<App>, now: Time, call: u64, handle: RequestHandle) {
    match cx.response_buffer(&handle, app.plan(call).response_bytes) {
        Ok(mut response) => {
            message::fill(call, Side::Response, response.as_mut_slice());
            cx.respond(handle, response);
        }
        Err(_) => {
            app.note(now, Event::Unanswered { call });
            cx.reject(handle, RejectCode::HandlerFailed);
        }
    }
}

/// The continuation of every call.
fn complete(app: &mut App, cx: &mut Context<App>, completion: Completion<'_>) {
    let (call, now) = (completion.tag, cx.now());
    app.calls.remove(&call);
    app.count(completion.result.as_ref().map(|_| ()).map_err(|error| *error));
    let outcome = match &completion.result {
        Ok(payload) => {
            let right = payload.len() == app.plan(call).response_bytes
                && message::is_right(call, Side::Response, payload);
            Outcome::Response { right }
        }
        Err(error) => Outcome::Failed(*error),
    };
    app.note(now, Event::Ended { call, outcome });
    cx.free(completion.request);
    if let Ok(payload) = completion.result {
        free(cx, payload);
    }
    if let Some((outer, handle)) = app.waiting.remove(&call) {
        answer(app, cx, now, outer, handle);
    }
}

fn free(cx: &mut Context<App>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}
