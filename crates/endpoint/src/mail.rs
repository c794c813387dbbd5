//! Messages between an endpoint and other threads: the control thread and workers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use core::time::Duration;

use petasos_buf::MsgBuf;
use petasos_control::{AcceptParams, ConnectParams, RefuseCode, SessionRef};
use petasos_netio::Route;
use petasos_wire::RejectCode;

use crate::enrolment::{EnrolmentId, Inbox, MemberRequest, News, PlaceWish, Reminder};
use crate::error::SessionError;
use crate::group_router::GroupRouter;
use crate::handler::RequestHandle;
use crate::mailbox::Mailbox;
use crate::secure::SessionSecurity;
use crate::sessions::{PeerId, SessionId, SessionOffer};

/// From any thread to an endpoint.
pub(crate) enum Mail {
    /// The outcome of a [`Command::Connect`].
    Connected { offer: Box<SessionOffer>, outcome: Result<Box<Granted>, SessionError> },
    /// A client asks for a session: answer with [`Command::Reply`].
    Asked {
        link: PeerId,
        id: u64,
        params: Box<ConnectParams>,
        client_ip: IpAddr,
        security: Option<Box<SessionSecurity>>,
    },
    /// The peer has closed a session. `session` names this endpoint's end.
    Disconnected { link: PeerId, session: SessionRef },
    /// The client never learnt of a session that this endpoint granted.
    Void { session: SessionRef },
    /// A control connection has ended.
    PeerLost { link: PeerId, error: SessionError },
    /// Another process is at the address where sessions of this connection were asked for.
    Succeeded { link: PeerId },
    /// The process shuts down gracefully.
    Drain,
    /// A route of this endpoint is lost: its rings broke and were not set up again.
    RouteLost { route: Route },
    /// The node is gone; there are no control connections any more.
    NodeEnded,
    /// A worker has finished.
    Answer(Box<WorkerAnswer>),
    /// There is news of an enrolment at a router.
    GroupNews { enrolment: EnrolmentId },
    /// Calls by an attachment to a group have had no answer for long.
    GroupSilent { session: SessionId },
    /// What the endpoint wanted to be reminded of.
    GroupReminder { enrolment: EnrolmentId, reminder: Reminder },
}

/// The result of a worker.
pub(crate) struct WorkerAnswer {
    pub(crate) handle: RequestHandle,
    pub(crate) request: MsgBuf,
    pub(crate) result: Result<MsgBuf, RejectCode>,
}

/// A session that a server has granted, and the link to that server.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) link: PeerId,
    /// The address at which the server was asked.
    pub(crate) server: SocketAddr,
    pub(crate) server_ip: IpAddr,
    pub(crate) params: AcceptParams,
    pub(crate) security: Option<SessionSecurity>,
}

/// From an endpoint or the application to the control thread.
pub(crate) enum Command {
    /// Ask the process at `server` for a session.
    Connect { server: SocketAddr, offer: Box<SessionOffer>, from: Arc<Mailbox<Mail>> },
    /// The answer to [`Mail::Asked`].
    Reply {
        link: PeerId,
        id: u64,
        result: Box<Result<AcceptParams, RefuseCode>>,
        from: Arc<Mailbox<Mail>>,
    },
    /// Tell the peer that a session is closed. `session` names the peer's end.
    Disconnect { link: PeerId, session: SessionRef },
    /// For a while, do not ask for rings for this endpoint on this link.
    AvoidRings { link: PeerId, endpoint: u16 },
    /// Something about groups.
    Group(GroupCommand),
    /// Take no new sessions.
    Drain,
    /// Accept connections at the listener from now on.
    Accept,
    /// Leave the listener to another process.
    HandOver,
    /// Say goodbye and end.
    Stop,
}

/// What the control thread needs for an enrolment.
pub(crate) struct Enrolment {
    pub(crate) id: EnrolmentId,
    /// The router's control address.
    pub(crate) router: SocketAddr,
    pub(crate) request: MemberRequest,
    pub(crate) from: Arc<Mailbox<Mail>>,
    pub(crate) inbox: Arc<Inbox>,
}

impl Enrolment {
    /// Leaves news, and tells the endpoint. Returns false if that is gone.
    pub(crate) fn leave(&self, write: impl FnOnce(&mut News)) -> bool {
        !self.inbox.leave(write) || self.from.post(Mail::GroupNews { enrolment: self.id }).is_ok()
    }
}

/// From an endpoint to the control thread, about groups.
pub(crate) enum GroupCommand {
    /// Ask a router, after a time.
    Enrol { enrolment: Box<Enrolment>, after: Duration },
    /// The endpoint does not want it any more: leave, or do not ask.
    Withdraw { enrolment: EnrolmentId },
    /// Ask the router of an attachment for a worker to connect to (RT37).
    Place { enrolment: EnrolmentId, wish: PlaceWish },
    /// The endpoint takes requests of this epoch (RT36).
    EpochTaken { enrolment: EnrolmentId, epoch: u16 },
    /// Send [`Mail::GroupReminder`] after a time.
    Remind {
        enrolment: EnrolmentId,
        reminder: Reminder,
        after: Duration,
        /// Whom to remind.
        from: Arc<Mailbox<Mail>>,
    },
    /// This process is a router from now on.
    SetRouter(Box<dyn GroupRouter>),
    /// The router has something to do.
    TurnRouter,
}
