//! The carrier: its state, and how it attaches.
//!
//! `receive` passes on descriptors from the service to the endpoint, and `send` passes on events of
//! the endpoint to the service. `unary`, `outward` and `inward` translate unary calls, streams that
//! this process has begun, and streams that it serves. `bytes` does the work of `unary` for
//! messages that must be protobuf.

mod bytes;
mod inward;
mod joined;
mod messages;
mod outward;
mod receive;
mod request_numbers;
mod send;
mod successor;
mod unary;
mod waiting;

use core::time::Duration;
use std::net::SocketAddr;

use petasos_attach::Attachment;
use petasos_base::Time;
use petasos_call::{Hash, ServiceError};
use petasos_endpoint::{CallId, Context, ExternalLimits, Notifier, SessionId};
use petasos_message::ModuleRef;

use crate::asks::Asked;
use crate::buffers::ProgramBuffers;
use crate::config::ServiceConfig;
use crate::connecting::Connecting;
use crate::convert::Meant;
use crate::link::Link;
use crate::services::{Binding, Description, KnownServices};
use inward::InwardNumbers;
use joined::Joined;
use outward::SessionOutward;
use successor::Other;

/// The longest message, framed. The service has limits of its own.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;
/// Concurrent requests from the service: streams may need two each.
const SERVED_SLOTS: u32 = 4096;
/// A process that serves tries again after so long to attach.
const RETRY: Duration = Duration::from_millis(100);
/// The socket is looked at so often while calls keep the loop awake.
const HEAR_EVERY: Duration = Duration::from_millis(5);
/// Streams that say nothing give spare exchanges back at this interval (R18).
const SWEEP: Duration = Duration::from_secs(1);

/// An external session.
struct Session {
    id: SessionId,
    /// The name that it calls.
    name: String,
    streams: SessionOutward,
}

/// A call that this process has begun.
#[derive(Clone, Copy, Debug)]
enum Begun {
    /// With the type of its response, if that has to be protobuf.
    Unary(CallId, Option<Meant>),
    Stream(u64),
}

/// Carries a loop's calls to the managed service of its host. It belongs to the loop's thread.
pub struct Carrier {
    config: ServiceConfig,
    notifier: Notifier,
    connecting: Option<Connecting>,
    /// The attachment in which calls begin.
    on: Joined,
    /// Of that attachment.
    buffers: ProgramBuffers,
    /// The one to the service's successor, or to its predecessor (D14).
    other: Option<Other>,
    /// When a process that serves tries again to attach.
    retry_at: Time,
    sweep_at: Time,
    services: KnownServices,
    /// By place.
    sessions: Vec<Option<Session>>,
    /// Where this process serves. A port that is 0 is the service's to choose.
    address: Option<SocketAddr>,
    /// The service let others call it there, perhaps before it was restarted.
    was_served: bool,
    /// Why it does not: its answer, or why there is no service.
    refused: Option<String>,
    /// What it serves and the service cannot know.
    undescribed: Option<String>,
    /// What is noted here cannot be trusted.
    has_panicked: bool,
    inward_numbers: InwardNumbers,
    next_stream: u64,
    scratch: Vec<u8>,
}

impl Carrier {
    /// A carrier that attaches when it is needed. `layout` is the version of the native layout;
    /// `notifier` makes its loop turn.
    pub fn new(config: ServiceConfig, layout: u16, notifier: Notifier) -> Carrier {
        Carrier {
            config,
            notifier,
            connecting: None,
            on: Joined::new(false),
            buffers: ProgramBuffers::default(),
            other: None,
            retry_at: Time::ZERO,
            sweep_at: Time::NEVER,
            services: KnownServices::new(layout),
            sessions: Vec::new(),
            address: None,
            was_served: false,
            refused: None,
            undescribed: None,
            has_panicked: false,
            inward_numbers: InwardNumbers::default(),
            next_stream: 0,
            scratch: Vec::new(),
        }
    }

    /// Buffers in the send heap for the program.
    pub fn buffers(&self) -> ProgramBuffers {
        self.buffers.clone()
    }

    /// Lets a service of this schema be called. Calls of a service without a schema are refused
    /// when it is bound.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn call(
        &mut self,
        described: &Description<'_>,
        schema: &ModuleRef,
    ) -> Result<(), ServiceError> {
        if described.hash == NO_SCHEMA {
            return Ok(());
        }
        self.services.call(described, schema)
    }

    /// Serves a service, whose methods have numbers from `first` on in the loop. Without a schema
    /// it cannot be served, and [`Carrier::is_serving`] says so.
    pub fn serve(&mut self, described: &Description<'_>, schema: &ModuleRef, first: u16) {
        if described.hash == NO_SCHEMA {
            self.undescribed = Some(format!("{}: {UNDESCRIBED}", described.name));
            return;
        }
        if self.services.has_other_version(described) {
            let why = "the process has another version of it";
            self.undescribed = Some(format!("{}: {why}", described.name));
            return;
        }
        let service = self.services.serve(described, schema, first);
        // It may be bound already, to be called only.
        self.on.bindings.set(service, Binding::Unasked);
        if self.on.link.is_some() {
            self.on.asks.bind(&self.services, &mut self.on.bindings, service);
        }
    }

    /// Lets others call what is served now and later at this address. With port 0, the service
    /// chooses one. This is called once.
    pub fn serve_at(&mut self, address: SocketAddr) {
        let name = name_of(address);
        if self.on.link.is_some() {
            self.on.asks.add(Asked::Serve, &name);
        }
        self.address = Some(address);
    }

    /// Where others call this process, once the service lets them.
    pub fn served_address(&self) -> Option<SocketAddr> {
        self.address.filter(|_| self.on.is_served)
    }

    /// Whether the service lets others call what is served.
    ///
    /// # Errors
    /// The reason: the service's, or why there is no service, or why it cannot be served there.
    pub fn is_serving(&self) -> Result<bool, &str> {
        let is_named = self.on.is_served || self.address.is_none();
        let refused = self.undescribed.as_deref().or(self.refused.as_deref());
        match refused.or_else(|| self.services.refused(&self.on.bindings)) {
            Some(why) => Err(why),
            None => Ok(self.on.link.is_some()
                && is_named
                && self.services.are_served(&self.on.bindings)),
        }
    }

    /// Opens a session to the server at an address, with this number of slots.
    pub fn open<S>(&mut self, cx: &mut Context<S>, server: SocketAddr, slots: u32) -> SessionId {
        self.open_named(cx, &name_of(server), slots)
    }

    /// The same, to what the service knows by this name.
    pub fn open_named<S>(&mut self, cx: &mut Context<S>, name: &str, slots: u32) -> SessionId {
        let id = cx.open_external(ExternalLimits { slots, message_bytes_max: MESSAGE_BYTES_MAX });
        let name = name.to_owned();
        if self.on.link.is_some() {
            self.on.asks.add(Asked::Target(id), &name);
        }
        self.retry_at = Time::ZERO;
        let place = id.place();
        if self.sessions.len() <= place {
            self.sessions.resize_with(place + 1, || None);
        }
        self.forget_targets(place);
        let streams = SessionOutward::new(slots);
        self.sessions[place] = Some(Session { id, name, streams });
        id
    }

    /// Whether the loop may sleep. If it returns true, the service wakes the loop.
    pub fn may_sleep(&mut self) -> bool {
        let joined = core::iter::once(&mut self.on);
        let mut joined = joined.chain(self.other.as_mut().map(|other| &mut *other.joined));
        joined.all(Joined::may_sleep)
    }

    /// Whether something can be asked for in the next turn.
    pub fn has_asks(&self) -> bool {
        let joined = core::iter::once(&self.on);
        let mut joined = joined.chain(self.other.as_ref().map(|other| &*other.joined));
        joined.any(|joined| joined.link.is_some() && joined.asks.are_ready())
    }

    /// A method of the carrier has panicked, and its caller goes on: what the carrier notes of
    /// calls may be wrong. The next [`Carrier::receive`] fails all of them and attaches anew, so
    /// that none waits for ever.
    pub fn has_panicked(&mut self) {
        self.has_panicked = true;
    }

    /// When the carrier needs a turn, if nothing arrives.
    pub fn next_turn_at(&self) -> Time {
        if self.has_panicked {
            return Time::ZERO;
        }
        let wants = self.on.link.is_none() && self.connecting.is_none() && self.is_wanted();
        let connect_at = if wants { self.retry_at } else { Time::NEVER };
        let other = self.other.as_ref().map_or(Time::NEVER, |other| other.joined.next_turn_at());
        let attach_at = self.attaches_at();
        let times = [self.on.next_turn_at(), other, attach_at, self.sweep_at];
        times.into_iter().fold(connect_at, Time::min)
    }

    fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        let session = self.sessions.get_mut(id.place())?.as_mut();
        session.filter(|session| session.id == id)
    }

    /// The number of the name that a session calls, once the service has given one.
    fn target(&self, id: SessionId) -> Option<u32> {
        let session = self.sessions.get(id.place())?.as_ref();
        let is_it = session.is_some_and(|session| session.id == id);
        is_it.then(|| self.on.target(id.place())).flatten()
    }

    /// A session begins or ends at a place.
    fn forget_targets(&mut self, place: usize) {
        self.on.set_target(place, None);
        if let Some(other) = &mut self.other {
            other.joined.set_target(place, None);
        }
    }

    fn is_wanted(&self) -> bool {
        self.address.is_some() || self.sessions.iter().any(Option::is_some)
    }

    /// Attaches, if it is time to.
    fn connect<S>(&mut self, cx: &mut Context<S>) -> bool {
        let Some(connecting) = &self.connecting else {
            if self.is_wanted() && self.retry_at <= cx.now() {
                let begun = Connecting::begin(&self.config, false, self.notifier.clone());
                self.connecting = Some(begun);
            }
            return false;
        };
        let Some(outcome) = connecting.poll() else { return false };
        self.connecting = None;
        let notifier = self.notifier.clone();
        match outcome.and_then(|attachment| watched(cx, attachment, notifier)) {
            Ok(link) => self.attached(cx, link),
            Err(why) => self.detached(cx, &why),
        }
        true
    }

    fn attached<S>(&mut self, cx: &mut Context<S>, link: Link) {
        self.buffers.set(Some(link.buffers().clone()));
        self.join(link);
        self.refused = None;
        let message_bytes_max = MESSAGE_BYTES_MAX;
        cx.serve_external(ExternalLimits { slots: SERVED_SLOTS, message_bytes_max });
        self.inward_numbers = InwardNumbers::new(SERVED_SLOTS);
    }

    /// Asks a service that was just attached to for all that is served and called.
    fn join(&mut self, mut link: Link) {
        let on = &mut self.on;
        link.prepare();
        (on.link, on.hear_at) = (Some(link), Time::ZERO);
        for service in self.services.served_ones() {
            on.asks.bind(&self.services, &mut on.bindings, service);
        }
        if let Some(address) = self.address {
            on.asks.add(Asked::Serve, &name_of(address));
        }
        for session in self.sessions.iter().flatten() {
            on.asks.add(Asked::Target(session.id), &session.name);
        }
    }

    /// The attachment has ended, or there was none: everything that used it fails.
    fn detached<S>(&mut self, cx: &mut Context<S>, why: &str) {
        cx.watch_nothing();
        cx.end_served_external();
        for session in self.sessions.drain(..).flatten() {
            cx.fail_external(session.id, why);
        }
        if let Some(mut other) = self.other.take() {
            other.joined.free_waiting(cx);
        }
        self.on.free_waiting(cx);
        self.on = Joined::new(false);
        self.buffers.set(None);
        self.retry_at = cx.now() + RETRY;
        self.refused = Some(why.to_owned());
        self.sweep_at = Time::NEVER;
    }
}

/// An attachment that wakes the loop.
fn watched<S>(
    cx: &mut Context<S>,
    attachment: Attachment,
    notifier: Notifier,
) -> Result<Link, String> {
    let link = Link::new(attachment, notifier);
    watch(cx, &link).map_err(|error| format!("cannot wait for it: {error}"))?;
    Ok(link)
}

fn watch<S>(cx: &mut Context<S>, link: &Link) -> std::io::Result<()> {
    link.descriptors()?.into_iter().try_for_each(|fd| cx.watch(fd))
}

/// The name of a server, as the service has it.
fn name_of(server: SocketAddr) -> String {
    format!("petasos://{server}")
}

/// The hash of a schema that is none.
const NO_SCHEMA: Hash = [0; 16];
/// What to do about it.
const UNDESCRIBED: &str = "the managed service needs the service's schema: describe the service \
    with descriptors or a schema instead of names";

impl core::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut debug = f.debug_struct("Carrier");
        debug.field("service", &self.config.path()).field("calls", &self.on.begun.len());
        debug.finish_non_exhaustive()
    }
}
