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

/// Handlers that may wait at once; more requests are rejected.
pub(crate) const WAITING_MAX: u32 = 65_536;
/// Deadlines are kept to a millisecond. Those farther away are looked at again each second.
const DEADLINE_SLOT_NS: u64 = 1 << 20;
const DEADLINE_REACH_NS: u64 = 1 << 30;

/// What a handler starts with.
pub struct Handling {
    /// The stream's place in the table.
    pub key: StreamKey,
    /// What the handler reads.
    pub requests: StreamHandle,
    /// What it writes.
    pub responses: StreamHandle,
    /// What goes with the call.
    pub beside: CallParts,
}

/// Whether a handler may begin with a message: a long one is counted where it lies already, and
/// then waits with its handler.
#[inline]
pub fn has_room(message: &[u8]) -> bool {
    message.len() < LONG_BYTES_MIN || memory::admits(0)
}

/// A method in a loop: the one virtual call of a request.
pub trait LocalMethod {
    /// Runs the handler of a request as far as it goes.
    fn start(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        request: &mut Request<'_>,
    );
    /// Whether its requests are exchanges of streams.
    fn is_stream(&self) -> bool {
        false
    }
    /// Starts the handler of a stream.
    fn open(&mut self, _: &mut DispatcherParts, _: &mut Context<Dispatcher>, _: Handling) {
        unreachable!("streams begin in methods with streams");
    }
    /// Goes on with the handler in `slot`, if there is one.
    fn poll(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32);
    /// Whether a handler waits in `slot`.
    fn is_waiting(&self, slot: u32) -> bool;
    /// Drops the handler in `slot`: nobody wants its answer (R11).
    fn abandon(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32);
    /// Drops the handler in `slot`, if it is still that of this generation: its time is up (R10).
    fn expire(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        slot: u32,
        generation: u32,
    );
    /// Drops the handler in `slot`, whose server ends, and answers so if that is possible.
    fn cut_off(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.abandon(parts, cx, slot);
    }
    /// The method within, if this times it; otherwise this.
    fn untimed(self: Box<Self>) -> Result<Box<dyn LocalMethod>, Box<dyn LocalMethod>>;
}

/// What the endpoint gives to a loop's callbacks.
pub struct Dispatcher {
    /// Method numbers count from 1 here (R1).
    pub(crate) methods: Vec<Box<dyn LocalMethod>>,
    pub(crate) parts: DispatcherParts,
}

/// All of the dispatcher but the methods, so that one of them can be leased the rest.
pub struct DispatcherParts {
    /// What futures see of the loop.
    pub local: &'static Local,
    pub(crate) services: Services,
    /// Handlers that have not answered: by request, and their deadlines.
    pub(crate) waiting: HashMap<RequestKey, Task>,
    /// What is due, and when.
    pub deadlines: Wheel<Due>,
    pub(crate) due: Vec<Due>,
    /// The typical time in handlers, and what became of their requests.
    typical_ns: u64,
    /// [`DispatcherParts::load`] as it is sent.
    load: LoadBytes,
    pub(crate) panics: u64,
    pub(crate) malformed: u64,
    /// Lists that are exchanged for those of `Local`, once a turn.
    pub(crate) polled: Vec<Task>,
    pub(crate) sent: Vec<u32>,
    /// Generations of the sessions whose clients are known, by index.
    met: Vec<u32>,
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
            slow: Slow::default(),
        };
        Dispatcher { methods: Vec::new(), parts }
    }
}

impl DispatcherParts {
    /// Where a request of a session comes from.
    #[inline]
    pub fn origin(&mut self, cx: &Context<Dispatcher>, session: ServerSessionId) -> Origin {
        if self.met.get(session.index() as usize) != Some(&session.generation()) {
            self.meet(cx, session);
        }
        Origin::Session { loop_id: self.local.shared.loop_id, session }
    }

    /// A session's first request has come.
    #[cold]
    fn meet(&mut self, cx: &Context<Dispatcher>, session: ServerSessionId) {
        let at = session.index() as usize;
        if self.met.len() <= at {
            // A generation that no session has yet means an entry of nobody's.
            self.met.resize(at + 1, u32::MAX);
        }
        self.met[at] = session.generation();
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

    /// A handler that has waited since `since` is over.
    #[inline]
    pub fn answered(&mut self, key: RequestKey, since: Time, now: Time) {
        if let Some(task) = self.waiting.remove(&key) {
            self.local.unwatch(task);
        }
        self.took(now.nanos_since(since));
    }

    /// A handler was over at once.
    #[inline]
    pub fn took_nothing(&mut self) {
        if self.typical_ns != 0 {
            self.took(0);
        }
    }

    /// A handler took so long.
    #[inline(never)]
    fn took(&mut self, ns: u64) {
        self.typical_ns = self.typical_ns - self.typical_ns / 8 + ns / 8;
        self.load = self.load().into();
    }

    /// The head of a response that is a native message and nothing else.
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

    /// Why no handler may begin for a request whose message has room (see [`has_room`]), or not:
    /// nothing of it has been decompressed or decoded yet.
    pub fn refusal(&self, cx: &Context<Dispatcher>, has_room: bool) -> Option<RejectCode> {
        match () {
            () if cx.is_draining() => Some(RejectCode::Draining),
            () if self.is_full() || !has_room => Some(RejectCode::Overloaded),
            () => None,
        }
    }

    /// What responses tell of this server (R7).
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
        // An error that says OK is the handler's mistake, and must not look like a response.
        let code = if status.code() == Code::Ok { Code::Unknown } else { status.code() };
        let (encoding, codec) = Default::default();
        let head = ResponseHead { encoding, codec, has_tail, code, load: self.load() };
        bytes[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        cx.respond_with(handle, &bytes);
    }

    /// R13: the request breaks a rule.
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

    /// A peer broke rules so many times, often none.
    #[inline]
    pub fn note_malformed(&mut self, times: u64) {
        if times > 0 {
            self.log_malformed(times);
        }
    }

    /// The log has every count that is a power of two, so that a hostile peer does not fill it.
    #[cold]
    fn log_malformed(&mut self, times: u64) {
        self.malformed += times;
        #[cfg(feature = "tracing")]
        if self.malformed.is_power_of_two() {
            tracing::warn!(so_far = self.malformed, "a peer's message breaks the rules of calls");
        }
    }

    /// A handler panicked; its call is over.
    #[cold]
    pub fn note_panic(&mut self) {
        self.panics += 1;
        #[cfg(feature = "tracing")]
        tracing::error!(so_far = self.panics, "a handler panicked");
    }
}
