//! The endpoint's state: the methods that the loop serves, and what their handlers share.

use std::collections::HashMap;

use petasos_base::{Time, Wheel};
use petasos_buf::memory::{self, LONG_BYTES_MIN};
use petasos_call::{
    Code, HEAD_BYTES, Load, LoadBytes, Malformed, ResponseHead, Services, Status, TailWriter,
};
use petasos_endpoint::{Context, RejectCode, Request, RequestHandle, RequestKey, ServerSessionId};
use petasos_rpc::origin::Origin;
use petasos_rpc::peer::Peer;
use petasos_rpc::recode::SPOKEN;
use petasos_rpc::request::CallParts;
use petasos_schema::LAYOUT_VERSION;

pub use super::due::Due;
use super::local::Local;
use super::slow::Slow;
use super::stream_handle::StreamHandle;
use super::streams::StreamKey;
use super::task::Task;

/// The most handlers that may wait at the same time. Further requests are rejected.
pub(crate) const WAITING_MAX: u32 = 65_536;
/// Deadlines have a resolution of a millisecond. Those farther away are checked again each second.
const DEADLINE_SLOT_NS: u64 = 1 << 20;
const DEADLINE_REACH_NS: u64 = 1 << 30;

/// What the handler of a stream gets.
pub struct Handling {
    /// The stream's place in the table.
    pub key: StreamKey,
    /// The half that the handler reads.
    pub requests: StreamHandle,
    /// The half that the handler writes.
    pub responses: StreamHandle,
    /// The other parts of the call.
    pub call_parts: CallParts,
}

/// Whether there is memory for a handler that keeps this message. A long message is already counted
/// where it is, and stays there while its handler waits.
#[inline]
pub fn has_room(message: &[u8]) -> bool {
    message.len() < LONG_BYTES_MIN || memory::admits(0)
}

/// A method in a loop. Its `start` is the only virtual call of a request.
pub trait LocalMethod {
    /// Starts the handler of a request, and runs it until it finishes or waits.
    fn start(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        request: &mut Request<'_>,
    );
    /// Whether its calls are streams.
    fn is_stream(&self) -> bool {
        false
    }
    /// Starts the handler of a stream.
    fn open(&mut self, _: &mut DispatcherParts, _: &mut Context<Dispatcher>, _: Handling) {
        unreachable!("streams begin in methods with streams");
    }
    /// Polls the handler in `slot`, if there is one.
    fn poll(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32);
    /// Whether a handler waits in `slot`.
    fn is_waiting(&self, slot: u32) -> bool;
    /// Drops the handler in `slot`, because nobody waits for its answer (R11).
    fn abandon(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32);
    /// Drops the handler in `slot`, if it still is the one of this generation: its deadline has
    /// passed (R10).
    fn expire(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        slot: u32,
        generation: u32,
    );
    /// Drops the handler in `slot`, because its server shuts down, and tells the caller if
    /// possible.
    fn cut_off(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.abandon(parts, cx, slot);
    }
    /// The inner method, if this one times it; otherwise this one.
    fn untimed(self: Box<Self>) -> Result<Box<dyn LocalMethod>, Box<dyn LocalMethod>>;
}

/// The state that the endpoint passes to a loop's callbacks.
pub struct Dispatcher {
    /// Indexed from 0; the numbers of methods count from 1 (R1).
    pub(crate) methods: Vec<Box<dyn LocalMethod>>,
    pub(crate) parts: DispatcherParts,
}

/// The dispatcher without its methods, so that a method can borrow the rest.
pub struct DispatcherParts {
    /// The part of the loop that futures use.
    pub local: &'static Local,
    pub(crate) services: Services,
    /// Handlers that have not answered, by request.
    pub(crate) waiting: HashMap<RequestKey, Task>,
    /// Timers of the loop.
    pub deadlines: Wheel<Due>,
    pub(crate) due: Vec<Due>,
    /// The typical time that handlers take, in nanoseconds.
    typical_ns: u64,
    /// [`DispatcherParts::load`], encoded.
    load: LoadBytes,
    pub(crate) panics: u64,
    pub(crate) malformed: u64,
    /// A list that is swapped with one of `Local` once a turn.
    pub(crate) polled: Vec<Task>,
    pub(crate) sent: Vec<u32>,
    /// The generations of sessions whose clients are known, by the session's index.
    met: Vec<u32>,
    /// The same of clients of groups, by their places.
    met_in_groups: Vec<u32>,
    pub(crate) slow: Slow,
}

impl Dispatcher {
    pub(crate) fn new(local: &'static Local) -> Dispatcher {
        let parts = DispatcherParts {
            local,
            services: Services::new(LAYOUT_VERSION as u16, SPOKEN),
            waiting: HashMap::new(),
            deadlines: Wheel::new(DEADLINE_SLOT_NS, DEADLINE_REACH_NS),
            due: Vec::new(),
            typical_ns: 0,
            load: LoadBytes::default(),
            panics: 0,
            malformed: 0,
            polled: Vec::new(),
            sent: Vec::new(),
            met: Vec::new(),
            met_in_groups: Vec::new(),
            slow: Slow::default(),
        };
        Dispatcher { methods: Vec::new(), parts }
    }
}

impl DispatcherParts {
    /// The origin of a request from a session.
    #[inline]
    pub fn origin(&mut self, cx: &Context<Dispatcher>, session: ServerSessionId) -> Origin {
        if self.met.get(session.place()) != Some(&session.generation()) {
            self.meet(cx, session);
        }
        Origin::Session { loop_id: self.local.shared.loop_id, session }
    }

    /// Notes the client of a session at its first request. Those of groups always come here.
    #[cold]
    fn meet(&mut self, cx: &Context<Dispatcher>, session: ServerSessionId) {
        let (met, at) = match session.is_group() {
            true => (&mut self.met_in_groups, session.group_place() as usize),
            false => (&mut self.met, session.place()),
        };
        if met.len() <= at {
            // The generation `u32::MAX` marks an entry without a session.
            met.resize(at + 1, u32::MAX);
        }
        if core::mem::replace(&mut met[at], session.generation()) == session.generation() {
            return;
        }
        let client = cx.served_peer(session).map(Peer::of_session);
        self.local.shared.meet(session, client);
    }

    /// Notes a handler that waits, until [`DispatcherParts::answered`].
    #[inline]
    pub fn wait(
        &mut self,
        now: Time,
        key: RequestKey,
        task: Task,
        generation: u32,
        deadline: Time,
    ) {
        self.waiting.insert(key, task);
        self.load = self.load().into();
        if deadline != Time::NEVER {
            let due = Due::Handler { task, generation, at: deadline };
            self.deadlines.insert(now, deadline, due);
        }
    }

    /// Notes that a handler that has waited since `since` has finished.
    #[inline]
    pub fn answered(&mut self, key: RequestKey, since: Time, now: Time) {
        if let Some(task) = self.waiting.remove(&key) {
            self.local.unwatch(task);
        }
        self.took(now.nanos_since(since));
    }

    /// Notes that a handler finished at once.
    #[inline]
    pub fn took_nothing(&mut self) {
        if self.typical_ns != 0 {
            self.took(0);
        }
    }

    /// Notes how long a handler took.
    #[inline(never)]
    fn took(&mut self, ns: u64) {
        self.typical_ns = self.typical_ns - self.typical_ns / 8 + ns / 8;
        self.load = self.load().into();
    }

    /// The head of a response that consists of a native message only.
    #[inline(always)]
    pub fn plain_head(&self) -> [u8; HEAD_BYTES] {
        ResponseHead::plain(self.load)
    }

    /// Whether no handler waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.local.streams.borrow().is_idle()
    }

    /// Whether another handler may wait.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX as usize
    }

    /// Why no handler may start for a request, if none may. `has_room` says whether there is memory
    /// for its message (see [`has_room`]). Nothing of the message has been decompressed or decoded
    /// yet.
    pub fn refusal(&self, cx: &Context<Dispatcher>, has_room: bool) -> Option<RejectCode> {
        match () {
            () if cx.is_draining() => Some(RejectCode::Draining),
            () if self.is_full() || !has_room => Some(RejectCode::Overloaded),
            () => None,
        }
    }

    /// The load that responses report (R7).
    #[inline]
    pub fn load(&self) -> Load {
        let time_us = u32::try_from(self.typical_ns / 1000).unwrap_or(u32::MAX);
        Load { running: u16::try_from(self.waiting.len()).unwrap_or(u16::MAX), time_us }
    }

    /// Answers with a status other than OK (R7, R9).
    #[cold]
    pub fn refuse(&self, cx: &mut Context<Dispatcher>, handle: RequestHandle, status: &Status) {
        let mut bytes = vec![0; HEAD_BYTES];
        let mut tail = TailWriter::new(&mut bytes);
        tail.status(status);
        let has_tail = !tail.is_empty();
        if has_tail {
            tail.finish();
        }
        // A handler that returns an error with the code OK is mistaken. It must not look like a
        // response.
        let code = if status.code() == Code::Ok { Code::Unknown } else { status.code() };
        if is_own_fault(code) {
            cx.count_failure(&handle);
        }
        let (encoding, codec) = Default::default();
        let head = ResponseHead { encoding, codec, has_tail, code, load: self.load() };
        bytes[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        cx.respond_with(handle, &bytes);
    }

    /// Answers a request that breaks a rule (R13).
    #[cold]
    pub fn refuse_malformed(
        &mut self,
        cx: &mut Context<Dispatcher>,
        handle: RequestHandle,
        malformed: Malformed,
    ) {
        self.note_malformed(1);
        self.refuse(cx, handle, &malformed.into());
    }

    /// Counts how often a peer broke rules; mostly 0.
    #[inline]
    pub fn note_malformed(&mut self, times: u64) {
        if times > 0 {
            self.log_malformed(times);
        }
    }

    /// Logs only counts that are powers of two, so that a hostile peer cannot fill the log.
    #[cold]
    fn log_malformed(&mut self, times: u64) {
        self.malformed += times;
        #[cfg(feature = "tracing")]
        if self.malformed.is_power_of_two() {
            tracing::warn!(so_far = self.malformed, "a peer's message breaks the rules of calls");
        }
    }

    /// Counts a handler that panicked. Its call is over.
    #[cold]
    pub fn note_panic(&mut self) {
        self.panics += 1;
        #[cfg(feature = "tracing")]
        tracing::error!(so_far = self.panics, "a handler panicked");
    }
}

/// Whether a status says that this process has failed, and not who asks (RT20).
fn is_own_fault(code: Code) -> bool {
    matches!(code, Code::Unknown | Code::Internal | Code::Unavailable | Code::DataLoss)
}
