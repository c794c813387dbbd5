//! A router that runs: its node, its plane's thread, and what joins them.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use petasos_base::sync::Ordering;
use petasos_base::{Clock, random_seed};
use petasos_control::DataAddress;
use petasos_endpoint::{Mailbox, Node};
use petasos_netio::PacketIo;
use petasos_netio_udp::UdpIo;
use petasos_router_plane::{FeedbackLoop, Plane, PlaneConfigError, Tier};
use petasos_router_table::{BindServer, BindServerError, NamesError, Table};

use crate::config::GroupSettings;
use crate::feedback_thread::{FeedbackCommand, FeedbackThread};
use crate::group::{Group, Refused};
use crate::methods::MethodTable;
use crate::operator::Operator;
use crate::overrides::Overrides;
use crate::plane_thread::{PlaneCommand, PlaneThread, Replies};

/// How long the plane's thread spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

/// Why a router does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The plane's settings are wrong.
    #[error(transparent)]
    Plane(#[from] PlaneConfigError),
    /// The names of services are wrong.
    #[error("services: {0}")]
    Names(#[from] NamesError),
    /// There are services, and no socket for binds. The program's fault.
    #[error("a group with services needs `start_with_table`")]
    NoBindSocket,
    /// Binds cannot be answered.
    #[error(transparent)]
    Binds(#[from] BindServerError),
    /// Another setting is out of its range.
    #[error("`{0}` is out of its range")]
    OutOfRange(&'static str),
    /// The node is a router already.
    #[error("the node is a router already")]
    HasRouter,
    /// The system has no descriptor or thread left.
    #[error("the system gives no descriptor or thread: {0}")]
    System(#[from] io::Error),
}

/// The thread that hears feedback.
struct FeedbackService {
    address: SocketAddr,
    commands: Arc<Mailbox<FeedbackCommand>>,
    thread: Option<JoinHandle<()>>,
}

/// What is before a plane, or beside it.
enum Around {
    Nothing,
    Tier(Box<dyn Tier>),
    Feedback(Box<UdpIo>),
}

/// A router that runs. Dropping it ends its threads; its node ends by itself.
pub struct RouterService {
    binds: Option<BindServer>,
    plane: Arc<Mailbox<PlaneCommand>>,
    thread: Option<JoinHandle<()>>,
    feedback: Option<FeedbackService>,
    refused: Arc<Refused>,
    data: SocketAddr,
    operator: Operator,
}

impl RouterService {
    /// Like [`RouterService::start`] or, with a packet I/O for binds,
    /// [`RouterService::start_with_table`], with a tier before the plane. Both have the packets of
    /// one address; the group has no more workers than the tier knows.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_with_tier(
        node: &Node,
        io: impl PacketIo + Send + 'static,
        bind_io: Option<UdpIo>,
        mut settings: GroupSettings,
        tier: Box<dyn Tier>,
    ) -> Result<RouterService, StartError> {
        let binds = binds_of(bind_io, &settings)?;
        let core = &mut settings.plane.core;
        core.workers_max = core.workers_max.min(tier.workers_max());
        RouterService::start_with(node, io, binds, settings, Around::Tier(tier))
    }

    /// Like [`RouterService::start`] or, with a packet I/O for binds,
    /// [`RouterService::start_with_table`], with a thread of its own for feedback, which workers
    /// send to `feedback_io`: the split of R2P2's router (section 4.2). It is worth it where there
    /// are processors for both threads, and workers that tell much.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_split(
        node: &Node,
        io: impl PacketIo + Send + 'static,
        feedback_io: UdpIo,
        bind_io: Option<UdpIo>,
        settings: GroupSettings,
    ) -> Result<RouterService, StartError> {
        let binds = binds_of(bind_io, &settings)?;
        RouterService::start_with(
            node,
            io,
            binds,
            settings,
            Around::Feedback(Box::new(feedback_io)),
        )
    }

    /// Makes `node` the router of a group, whose packets come to `io`, any packet I/O that passes
    /// the suite of planes (`petasos-router-conformance`). Its routes must be found at once: the
    /// thread that has the packets asks for them. The group has no table of methods.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        node: &Node,
        io: impl PacketIo + Send + 'static,
        settings: GroupSettings,
    ) -> Result<RouterService, StartError> {
        if !settings.services.is_empty() {
            return Err(StartError::NoBindSocket);
        }
        RouterService::start_with(node, io, None, settings, Around::Nothing)
    }

    /// Like [`RouterService::start`], for a group with the table of methods of
    /// [`GroupSettings::services`], of which there is one at least. The packets of binds come to
    /// `bind_io`. Clients bind by ordinary sessions with the node, and workers need a dial port, at
    /// which the router binds.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_with_table(
        node: &Node,
        io: impl PacketIo + Send + 'static,
        bind_io: UdpIo,
        settings: GroupSettings,
    ) -> Result<RouterService, StartError> {
        let table = Table::new(&settings.services)?;
        RouterService::start_with(node, io, Some((bind_io, table)), settings, Around::Nothing)
    }

    fn start_with(
        node: &Node,
        io: impl PacketIo + Send + 'static,
        binds: Option<(UdpIo, Table)>,
        mut settings: GroupSettings,
        around: Around,
    ) -> Result<RouterService, StartError> {
        settings.check()?;
        settings.plane.is_sealed = node.is_secured();
        let data = io.local_address();
        let mut plane = Plane::new(&settings.plane, random_seed())?;
        let commands = Arc::new(Mailbox::new()?);
        let (feedback, feedback_at) = match around {
            Around::Nothing => (None, data),
            Around::Tier(tier) => {
                plane.set_tier(tier);
                (None, data)
            }
            Around::Feedback(io) => {
                let feedback = FeedbackService::start(plane.split(), *io, commands.clone())?;
                let at = feedback.address;
                (Some(feedback), at)
            }
        };
        let (replies, refused) = (Arc::new(Replies::default()), Arc::new(Refused::default()));
        let binds = binds.map(|(io, table)| BindServer::start(node, io, table)).transpose()?;
        let told = |at: SocketAddr| {
            DataAddress::udp(at.port(), Some(at.ip()).filter(|ip| !ip.is_unspecified()))
        };
        let group = Group::new(
            settings,
            [told(data), told(feedback_at)],
            (commands.clone(), replies.clone()),
            refused.clone(),
            binds.as_ref().map(|binds| MethodTable::new(binds.judge())),
            Clock::system().now(),
        );
        let (plane_box, desk) = (commands.clone(), group.desk().clone());
        let operator = Operator { plane: plane_box, desk, waker: node.router_waker() };
        let plane_thread = PlaneThread {
            plane,
            io,
            commands: commands.clone(),
            replies,
            waker: node.router_waker(),
            spin: SPIN,
            feedback: feedback.as_ref().map(|feedback| feedback.commands.clone()),
            overrides: Overrides::default(),
        };
        let thread = std::thread::Builder::new().name("petasos-plane".into());
        let thread = thread.spawn(move || plane_thread.run())?;
        let (plane, thread) = (commands, Some(thread));
        let service = RouterService { binds, plane, thread, feedback, refused, data, operator };
        node.set_router(Box::new(group)).map_err(|_| StartError::HasRouter)?;
        Ok(service)
    }

    /// Whether its threads run. If one has failed, start another process.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && self.feedback.as_ref().is_none_or(FeedbackService::is_running)
            && self.binds.as_ref().is_none_or(BindServer::is_running)
    }

    /// Where packets of binds come, if the group has a table of methods.
    pub fn bind_address(&self) -> Option<SocketAddr> {
        self.binds.as_ref().map(BindServer::address)
    }

    /// Where first packets come, and feedback unless a thread of its own hears it.
    pub fn data_address(&self) -> SocketAddr {
        self.data
    }

    /// Where feedback comes, if a thread of its own hears it.
    pub fn feedback_address(&self) -> Option<SocketAddr> {
        self.feedback.as_ref().map(|feedback| feedback.address)
    }

    /// What operators see and change of it.
    pub fn operator(&self) -> Operator {
        self.operator.clone()
    }

    /// How many attempts to attach and to join were refused.
    pub fn refused(&self) -> (u64, u64) {
        let read = |counter: &petasos_base::sync::AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.refused.attaches), read(&self.refused.joins))
    }
}

impl core::fmt::Debug for RouterService {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RouterService").field("data", &self.data).finish_non_exhaustive()
    }
}

impl Drop for RouterService {
    fn drop(&mut self) {
        self.operator.desk.close();
        // A thread that is gone need not be told.
        let _ = self.plane.post(PlaneCommand::Stop);
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was reported; a drop must not panic.
            let _ = thread.join();
        }
    }
}

/// The table of a group's methods, and the packet I/O of binds, if it has one.
fn binds_of(
    bind_io: Option<UdpIo>,
    settings: &GroupSettings,
) -> Result<Option<(UdpIo, Table)>, StartError> {
    match bind_io {
        Some(bind_io) => Ok(Some((bind_io, Table::new(&settings.services)?))),
        None if settings.services.is_empty() => Ok(None),
        None => Err(StartError::NoBindSocket),
    }
}

impl FeedbackService {
    fn start(
        heard: FeedbackLoop,
        io: UdpIo,
        plane: Arc<Mailbox<PlaneCommand>>,
    ) -> io::Result<FeedbackService> {
        let (address, commands) = (io.local_address(), Arc::new(Mailbox::new()?));
        let wake = move || plane.wake();
        let thread = FeedbackThread { heard, io, commands: commands.clone(), wake, spin: SPIN };
        let named = std::thread::Builder::new().name("petasos-heard".into());
        let thread = Some(named.spawn(move || thread.run())?);
        Ok(FeedbackService { address, commands, thread })
    }

    fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for FeedbackService {
    fn drop(&mut self) {
        // A thread that is gone need not be told.
        let _ = self.commands.post(FeedbackCommand::Stop);
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was reported; a drop must not panic.
            let _ = thread.join();
        }
    }
}

impl GroupSettings {
    /// Checks what can be checked without starting anything.
    ///
    /// # Errors
    /// The first setting that is wrong.
    pub fn check(&self) -> Result<(), StartError> {
        self.plane.check()?;
        let plane_core = self.plane.core.check();
        plane_core.map_err(PlaneConfigError::Core)?;
        if !self.services.is_empty() {
            Table::new(&self.services)?;
        }
        check_members(self)
    }
}

fn check_members(settings: &GroupSettings) -> Result<(), StartError> {
    if !(1..=petasos_control::ASKED_MAX).contains(&settings.asked_max) {
        return Err(StartError::OutOfRange("asked_max"));
    }
    let times = [settings.beat_us, settings.hole_us, settings.claim_us];
    if let Some(at) = times.iter().position(|time| *time == 0) {
        return Err(StartError::OutOfRange(["beat_us", "hole_us", "claim_us"][at]));
    }
    if settings.routers.len() > petasos_control::ROUTERS_MAX {
        return Err(StartError::OutOfRange("routers"));
    }
    let is_usable = |it: &SocketAddr| it.port() != 0 && !it.ip().is_unspecified();
    if !settings.routers.iter().all(is_usable) {
        return Err(StartError::OutOfRange("routers"));
    }
    let epochs = settings.epochs;
    if epochs.epoch <= epochs.overlap + Duration::from_secs(2) {
        return Err(StartError::OutOfRange("epochs"));
    }
    Ok(())
}
