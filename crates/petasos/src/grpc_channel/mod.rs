//! Channels to gRPC servers.
//!
//! [`ChannelCore`] of `petasos-call` chooses the server for each call, as it does for datagrams.
//! What the core calls a session is a connection here, one per server. The core is behind a lock,
//! which each call takes twice for a short time. A task of the channel's Tokio runtime (`driver`)
//! performs the core's actions (connects, look-ups, timers); it ends with the channel.
//!
//! Invariants: `connections` has an entry for each session that the core knows. A waiting call has
//! its ticket in `waiting`, and is notified of its result once. While the lock is held, no code
//! awaits and no foreign code runs.

mod attempts;
mod driver;
mod retries;
mod runtime;
mod unary;

use core::time::Duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_base::{Rng, SystemClock, Time, random_seed};
use petasos_buf::MsgBuf;
use petasos_call::balance::{Balance, Report};
use petasos_call::channel::{
    Action, Avoid, CallOptions, ChannelConfig, ChannelCore, Pick, PickError, SessionIndex, Ticket,
};
use petasos_call::policy::RetryBudget;
use petasos_call::{Code, Codec, Failure, Status};
use petasos_grpc::{
    ClientConfig, ClientHead, Compression, Connection, FrameReader, FrameWriter, MethodPath,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use driver::drive;
use petasos_rpc::compression::ChosenCodec;
use petasos_rpc::extensions::Extensions;
use petasos_rpc::settings::Defaults;
use petasos_rpc::timer::{Timekeeper, Timer};
pub(crate) use retries::{Progress, Retrying, SPARE_BYTES_MAX, copy};
pub use runtime::own as background_runtime;
pub(crate) use unary::GrpcUnary;

/// What is before the path of a Unix socket, where others have `host:port`.
pub(crate) const UNIX_TARGET: &str = "unix:";

/// The most connections that a call tries, if each of them has just closed.
const ATTEMPTS_MAX: u32 = 5;

/// A channel to one or several gRPC servers. Clones are the same channel.
#[derive(Clone)]
pub(crate) struct GrpcChannel {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) runtime: Handle,
    /// The targets that the program gave, each as `host:port` or [`UNIX_TARGET`] with a path.
    pub(super) targets: Vec<String>,
    pub(super) config: ClientConfig,
    /// Defaults for calls that do not set their own.
    defaults: Option<Defaults>,
    clock: SystemClock,
    state: Mutex<State>,
    /// Notified when the driver has something to do.
    pub(super) changed: Arc<Notify>,
}

pub(super) struct State {
    pub(super) core: ChannelCore,
    pub(super) rng: Rng,
    /// The retry budget of the channel's calls.
    pub(super) budget: RetryBudget,
    /// Indexed by the session's number.
    pub(super) connections: Vec<Option<(SessionIndex, Connection)>>,
    pub(super) waiting: HashMap<Ticket, oneshot::Sender<Result<SessionIndex, PickError>>>,
    /// Actions that the core wants performed.
    pub(super) actions: Vec<Action>,
    /// The host name of each address, as in the target.
    pub(super) names: HashMap<SocketAddr, String>,
    /// Why the latest connection attempt failed.
    pub(super) last_failure: Option<Status>,
}

/// The parts that a call starts with.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrpcHead {
    pub(crate) client: ClientHead,
    pub(crate) wait_for_ready: bool,
}

/// A call that has started.
pub(crate) struct Begun {
    pub(crate) reader: FrameReader,
    /// None once all requests are sent.
    pub(crate) writer: Option<FrameWriter>,
    pub(crate) lease: Lease,
}

impl GrpcChannel {
    /// Makes a channel to the servers at `targets` (each as `host:port`). It connects when the
    /// first call needs it. It uses the thread's Tokio runtime, or the process-wide one of this
    /// crate.
    ///
    /// # Errors
    /// The system could not start a thread for the runtime.
    pub(crate) fn new(
        targets: Vec<String>,
        config: ClientConfig,
        balance: Balance,
        defaults: Option<Defaults>,
    ) -> std::io::Result<GrpcChannel> {
        let runtime = runtime::here_or_own()?;
        let clock = SystemClock::default();
        let mut core =
            ChannelCore::new(ChannelConfig { balance, resolves: true, ..ChannelConfig::default() });
        let mut names = HashMap::new();
        let addresses: Option<Vec<SocketAddr>> =
            targets.iter().map(|target| target.parse().ok()).collect();
        if let Some(addresses) = addresses {
            names.extend(addresses.iter().copied().zip(targets.iter().cloned()));
            let config = ChannelConfig { balance, ..ChannelConfig::default() };
            core = ChannelCore::new(config);
            core.handle_addresses(&addresses, clock.now());
        }
        let throttling = defaults.as_ref().and_then(Defaults::throttling);
        let state = State {
            core,
            rng: Rng::new(random_seed()),
            budget: RetryBudget::new(throttling),
            connections: Vec::new(),
            waiting: HashMap::new(),
            actions: Vec::new(),
            names,
            last_failure: None,
        };
        let (state, changed) = (Mutex::new(state), Arc::new(Notify::new()));
        let inner = Arc::new(Inner { runtime, targets, config, defaults, clock, state, changed });
        inner.runtime.spawn(drive(Arc::downgrade(&inner), inner.changed.clone()));
        Ok(GrpcChannel { inner })
    }

    /// The compression of a call's requests.
    pub(crate) fn compression_of(&self, extensions: &Extensions) -> Compression {
        match extensions.get() {
            None => self.inner.config.compression,
            Some(ChosenCodec(Codec::GZIP)) => Compression::Gzip,
            Some(_) => Compression::Identity,
        }
    }

    /// The longest response that is accepted if a policy allows `policy` bytes.
    pub(crate) fn receive_bytes_max(&self, policy: u32) -> usize {
        self.inner.config.receive_bytes_max.min(policy as usize)
    }

    /// The targets that the program gave.
    pub(crate) fn targets(&self) -> &[String] {
        &self.inner.targets
    }

    pub(crate) fn defaults(&self) -> Option<&Defaults> {
        self.inner.defaults.as_ref()
    }

    /// Waits until a server is connected.
    ///
    /// # Errors
    /// No server could be reached in time.
    pub(crate) async fn connected(&self, timeout: Duration) -> Result<(), Status> {
        let head = ClientHead { timeout: Some(timeout), ..ClientHead::default() };
        let head = GrpcHead { client: head, wait_for_ready: false };
        self.pick(options(&head, self.inner.now())).await.map(drop)
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.inner.runtime
    }

    /// The timer that tracks the deadlines of the channel's calls.
    pub(crate) fn timekeeper(&self) -> Arc<dyn Timekeeper> {
        self.inner.clone()
    }

    /// Starts a call if no waiting is needed; `last` is the only request. Otherwise returns the
    /// parts for [`GrpcChannel::begin`].
    pub(crate) fn try_begin(
        &self,
        path: &MethodPath,
        head: GrpcHead,
        last: MsgBuf,
    ) -> Result<Result<Begun, Status>, (GrpcHead, MsgBuf)> {
        let picked = self.inner.lock().pick_now(options(&head, self.inner.now()), &self.inner);
        let Some((connection, lease)) = picked else { return Err((head, last)) };
        let _context = self.inner.runtime.enter();
        match connection.try_call(path, &head.client) {
            Some(Ok((writer, reader))) => {
                writer.close_with(last);
                Ok(Ok(Begun { reader, writer: None, lease }))
            }
            Some(Err(status)) if status.code() != Code::Unavailable => Ok(Err(status)),
            Some(Err(_)) => {
                lease.give_up();
                Err((head, last))
            }
            None => Err((head, last)),
        }
    }

    /// Starts a call as soon as a server is available. If `last` is given, it is the only request.
    pub(crate) async fn begin(
        self,
        path: MethodPath,
        head: GrpcHead,
        last: Option<MsgBuf>,
    ) -> Result<Begun, Status> {
        self.begin_at(None, path, head, last).await
    }

    /// Like [`GrpcChannel::begin`], with a connection that may have been chosen already.
    async fn begin_at(
        self,
        mut picked: Option<(Connection, Lease)>,
        path: MethodPath,
        head: GrpcHead,
        last: Option<MsgBuf>,
    ) -> Result<Begun, Status> {
        let deadline = head.client.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let options = options(&head, self.inner.now());
        if options.deadline <= self.inner.now() {
            return Err(PickError::DeadlineExceeded.into());
        }
        let mut head = head.client;
        let mut attempts = 0;
        loop {
            let (connection, lease) = match picked.take() {
                Some(picked) => picked,
                None => self.pick(options).await?,
            };
            head.timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            attempts += 1;
            match connection.call(&path, &head).await {
                Ok((writer, reader)) => {
                    if let Some(last) = last {
                        writer.close_with(last);
                        return Ok(Begun { reader, writer: None, lease });
                    }
                    return Ok(Begun { reader, writer: Some(writer), lease });
                }
                Err(status) if status.code() == Code::Unavailable && attempts < ATTEMPTS_MAX => {
                    lease.give_up();
                }
                Err(status) => return Err(status),
            }
        }
    }

    async fn pick(&self, options: CallOptions) -> Result<(Connection, Lease), Status> {
        loop {
            let (ticket, picked_later) = match self.inner.lock().pick(options, &self.inner) {
                Picked::Ready(connection, lease) => return Ok((connection, lease)),
                Picked::Failed(status) => return Err(status),
                Picked::Waits(ticket, picked_later) => (ticket, picked_later),
            };
            let waiter = Waiter { inner: &self.inner, ticket };
            let session = picked_later.await;
            drop(waiter);
            let over = |_| Status::unavailable("the channel's runtime has ended");
            let session = session.map_err(over)?;
            let state = &mut *self.inner.lock();
            let session = session.map_err(|error| state.status(error))?;
            if let Some(connection) = state.connection(session) {
                return Ok((connection, Lease::new(&self.inner, session)));
            }
        }
    }
}

enum Picked {
    Ready(Connection, Lease),
    Waits(Ticket, oneshot::Receiver<Result<SessionIndex, PickError>>),
    Failed(Status),
}

/// A call in the core's queue. Dropping this removes it from the queue.
struct Waiter<'a> {
    inner: &'a Arc<Inner>,
    ticket: Ticket,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let state = &mut *self.inner.lock();
        if state.waiting.remove(&self.ticket).is_some() {
            state.core.handle_abandoned(self.ticket);
        }
    }
}

impl Timekeeper for Inner {
    fn start(&self, timeout: Duration) -> Timer {
        let _context = self.runtime.enter();
        let sleep = tokio::time::sleep(timeout);
        Box::pin(async move {
            sleep.await;
            Failure::Timeout.status()
        })
    }
}

impl Inner {
    /// The lock cannot be poisoned: no code panics while holding it.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }
}

impl State {
    fn pick(&mut self, options: CallOptions, inner: &Arc<Inner>) -> Picked {
        let picked = self.core.pick(options, inner.now(), &mut self.rng);
        self.note_actions(inner);
        match picked {
            Pick::Session(session) => match self.connection(session) {
                Some(connection) => Picked::Ready(connection, Lease::new(inner, session)),
                None => unreachable!("sessions have connections"),
            },
            Pick::Wait(ticket) => {
                let (tell, picked_later) = oneshot::channel();
                self.waiting.insert(ticket, tell);
                inner.changed.notify_one();
                Picked::Waits(ticket, picked_later)
            }
            Pick::Fail(error) => Picked::Failed(self.status(error)),
        }
    }

    /// A connection for a call, if one is available without waiting.
    fn pick_now(
        &mut self,
        options: CallOptions,
        inner: &Arc<Inner>,
    ) -> Option<(Connection, Lease)> {
        if !self.core.is_ready() || options.deadline <= inner.now() {
            return None;
        }
        match self.pick(options, inner) {
            Picked::Ready(connection, lease) => Some((connection, lease)),
            Picked::Waits(ticket, _) => {
                self.waiting.remove(&ticket);
                self.core.handle_abandoned(ticket);
                None
            }
            Picked::Failed(_) => None,
        }
    }

    pub(super) fn connection(&self, session: SessionIndex) -> Option<Connection> {
        let (known, connection) = self.connections.get(session.number())?.as_ref()?;
        (*known == session).then(|| connection.clone())
    }

    /// Passes the core's actions to the driver.
    fn note_actions(&mut self, inner: &Inner) {
        while let Some(action) = self.core.poll_action(inner.now()) {
            self.actions.push(action);
        }
        if !self.actions.is_empty() {
            inner.changed.notify_one();
        }
    }

    /// Handles a session that has ended, or accepts no more calls.
    pub(super) fn lose(&mut self, session: SessionIndex, now: Time) {
        let entry = self.connections.get_mut(session.number());
        let entry = entry.and_then(|entry| entry.take_if(|(known, _)| *known == session));
        if entry.is_some_and(|(_, connection)| connection.is_left()) {
            self.core.handle_succeeded(session);
        }
        self.core.handle_lost(session, now);
    }

    /// The status for a call that gets no server, with the reason why none could be reached.
    pub(super) fn status(&self, error: PickError) -> Status {
        match (&self.last_failure, Status::from(error)) {
            (Some(why), status) if status.code() == Code::Unavailable => {
                Status::unavailable(format!("{error}: {}", why.message()))
            }
            (_, status) => status,
        }
    }
}

/// A call's use of its connection, which the balancer counts. If this is dropped, the call failed
/// or was a stream.
pub(crate) struct Lease {
    inner: Arc<Inner>,
    session: SessionIndex,
    since: Time,
    report: Option<Report>,
}

impl Lease {
    fn new(inner: &Arc<Inner>, session: SessionIndex) -> Lease {
        Lease { inner: inner.clone(), session, since: inner.now(), report: None }
    }

    pub(crate) fn session(&self) -> SessionIndex {
        self.session
    }

    /// Records that a stream ended successfully.
    pub(crate) fn credit(&self) {
        self.inner.lock().budget.on_success();
    }

    /// Records that the call was answered, and how long that took.
    pub(crate) fn succeeded(mut self) {
        let nanos = self.inner.now().nanos_since(self.since);
        self.report = Some(Report { latency: Duration::from_nanos(nanos), load: None });
    }

    /// Returns the lease because the connection accepts no calls.
    fn give_up(self) {
        self.inner.lock().lose(self.session, self.inner.now());
        self.inner.changed.notify_one();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let state = &mut *self.inner.lock();
        state.core.handle_ended(self.session, self.report, self.inner.now());
        state.note_actions(&self.inner);
    }
}

fn options(head: &GrpcHead, now: Time) -> CallOptions {
    let nanos = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let timeout = head.client.timeout;
    let deadline = timeout.map_or(Time::NEVER, |timeout| now.plus_nanos(nanos(timeout)));
    CallOptions { wait_for_ready: head.wait_for_ready, deadline, avoid: Avoid::NOTHING }
}
