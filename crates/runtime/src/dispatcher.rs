//! The endpoint's state: the methods that the loop serves, and what their handlers share.

use std::collections::HashMap;

use petasos_base::{Time, Wheel};
use petasos_buf::{MsgBuf, SPARE_BYTES_MIN};
use petasos_call::{
    BindRequest, Code, HEAD_BYTES, Load, LoadBytes, Malformed, RequestHead, ResponseHead, Services,
    Status, TailWriter, split,
};
use petasos_endpoint::{Context, Payload, RejectCode, Request, RequestHandle, RequestKey};
use petasos_rpc::origin::Origin;
use petasos_rpc::peer::Peer;
use petasos_rpc::recode::SPOKEN;
use petasos_schema::LAYOUT_VERSION;

use super::attempts;
use super::local::{Local, Task};
use super::method::LocalMethod;
use super::remote::CallKey;
use super::slow::Slow;
use super::streams::{self, Key};

/// Handlers that may wait at once; more requests are rejected.
pub(crate) const WAITING_MAX: u32 = 65_536;
/// Deadlines are kept to a millisecond. Those farther away are looked at again each second.
const DEADLINE_SLOT_NS: u64 = 1 << 20;
const DEADLINE_REACH_NS: u64 = 1 << 30;

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
    waiting: HashMap<RequestKey, Task>,
    /// What is due, and when.
    pub deadlines: Wheel<Due>,
    due: Vec<Due>,
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

/// What is over at some time.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields' names say it")]
pub enum Due {
    Handler {
        task: Task,
        generation: u32,
        at: Time,
    },
    /// A call that waits for a bind, or to be sent again.
    Call {
        call: CallKey,
        at: Time,
    },
    Channel {
        channel: u32,
        at: Time,
    },
    Stream {
        key: Key,
        at: Time,
    },
    /// Streams of sessions that are gone.
    Sweep {
        at: Time,
    },
    /// Somebody waits for this time.
    Timer {
        number: u32,
        at: Time,
    },
}

impl Due {
    fn at(self) -> Time {
        match self {
            Due::Handler { at, .. } | Due::Call { at, .. } | Due::Channel { at, .. } => at,
            Due::Stream { at, .. } | Due::Sweep { at } | Due::Timer { at, .. } => at,
        }
    }
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

    /// R10: ends what is due.
    #[cold]
    pub(crate) fn expire(&mut self, cx: &mut Context<Dispatcher>) {
        let (now, parts) = (cx.now(), &mut self.parts);
        let mut due = core::mem::take(&mut parts.due);
        parts.deadlines.advance(now, |item| due.push(item));
        for item in due.drain(..) {
            if item.at() > now {
                self.parts.deadlines.insert(now, item.at(), item);
                continue;
            }
            match item {
                Due::Handler { task, generation, .. } => {
                    let method = &mut self.methods[task.kind as usize];
                    method.expire(&mut self.parts, cx, task.slot, generation);
                }
                Due::Call { call, .. } => attempts::expire(&mut self.parts, cx, call),
                Due::Stream { key, .. } => streams::expire(self.parts.local, key),
                Due::Sweep { .. } => streams::sweep(self, cx),
                Due::Timer { number, .. } => self.parts.local.timer_is_due(number),
                Due::Channel { channel, at } => {
                    self.parts.local.channels.borrow_mut().is_due(channel, at);
                }
            }
        }
        self.parts.due = due;
    }
}

impl Dispatcher {
    /// Ends all handlers that wait, since the server does. How many there were.
    pub(crate) fn cut_off(&mut self, cx: &mut Context<Dispatcher>) -> usize {
        let tasks: Vec<Task> = self.parts.waiting.values().copied().collect();
        for task in &tasks {
            self.methods[task.kind as usize].cut_off(&mut self.parts, cx, task.slot);
        }
        tasks.len() + streams::cut_off(self, cx)
    }
}

impl DispatcherParts {
    /// Where a request of a session comes from.
    #[inline]
    pub fn origin(&mut self, cx: &Context<Dispatcher>, session: (u32, u32)) -> Origin {
        if self.met.get(session.0 as usize) != Some(&session.1) {
            self.meet(cx, session);
        }
        Origin::Session { loop_id: self.local.shared.loop_id, session }
    }

    /// A session's first request has come.
    #[cold]
    fn meet(&mut self, cx: &Context<Dispatcher>, (index, generation): (u32, u32)) {
        let at = index as usize;
        if self.met.len() <= at {
            // A generation that no session has yet means an entry of nobody's.
            self.met.resize(at + 1, u32::MAX);
        }
        self.met[at] = generation;
        let client = cx.served_peer((index, generation)).map(Peer::of_session);
        self.local.shared.meet((index, generation), client);
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

/// The endpoint's handler of all methods.
pub(crate) fn dispatch(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    mut request: Request<'_>,
) {
    let Dispatcher { methods, parts } = dispatcher;
    parts.local.set_turn(Some(cx.now()));
    let at = usize::from(request.method).wrapping_sub(1);
    let method = methods.get_mut(at).expect("numbers are registered with their methods");
    method.start(parts, cx, &mut request);
}

/// R2: the handler of method 0.
pub(crate) fn bind(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    request: Request<'_>,
) {
    let parts = &mut dispatcher.parts;
    if cx.is_draining() {
        cx.reject(request.handle, RejectCode::Draining);
    } else {
        match bound(&parts.services, parts.load(), &request.payload) {
            Ok(Ok(answer)) => cx.respond_with(request.handle, &answer),
            Ok(Err(status)) => parts.refuse(cx, request.handle, &status),
            Err(malformed) => parts.refuse_malformed(cx, request.handle, malformed),
        }
    }
    free(cx, request.payload);
}

/// R2: the answer to a bind; with the load, since a bind is also a probe (R7).
fn bound(
    services: &Services,
    load: Load,
    bytes: &[u8],
) -> Result<Result<Vec<u8>, Status>, Malformed> {
    let head = bytes.first_chunk().ok_or(Malformed::TooShort)?;
    let head = RequestHead::parse(*head)?;
    let (body, _) = split(bytes, head.has_tail)?;
    let request = BindRequest::parse(&bytes[body])?;
    Ok(services.answer(&request).map(|answer| {
        let (encoding, codec) = Default::default();
        let head = ResponseHead { encoding, codec, has_tail: false, code: Code::Ok, load };
        let mut bytes = head.to_bytes().to_vec();
        answer.write(&mut bytes);
        bytes
    }))
}

/// R11: a request that waits is not wanted any more.
pub(crate) fn abandon(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, key: RequestKey) {
    let Dispatcher { methods, parts } = dispatcher;
    if let Some(task) = parts.waiting.get(&key) {
        let task = *task;
        return methods[task.kind as usize].abandon(parts, cx, task.slot);
    }
    streams::abandon(dispatcher, cx, key);
}

/// The buffer of what was received, for good, if it is so long that it should be read there; what
/// was received, otherwise.
#[inline]
pub fn kept<'a>(cx: &mut Context<Dispatcher>, payload: Payload<'a>) -> Result<MsgBuf, Payload<'a>> {
    match payload {
        Payload::Buffer(buf) if buf.capacity() >= SPARE_BYTES_MIN => {
            cx.part_with(&buf);
            Ok(buf)
        }
        payload => Err(payload),
    }
}

/// Answers with a message in a buffer of its own, and long pieces of it from where they are.
#[inline(never)]
pub fn respond_in(cx: &mut Context<Dispatcher>, handle: RequestHandle, buf: MsgBuf) {
    if let Some(buf) = cx.respond_in(handle, buf) {
        petasos_message::recycle(buf);
    }
}

/// Gives the buffer of what was received back.
#[inline]
pub fn free(cx: &mut Context<Dispatcher>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}
