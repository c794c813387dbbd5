//! Messages between an endpoint and other threads: the control thread and workers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use petasos_buf::MsgBuf;
use petasos_control::{AcceptParams, ConnectParams, RefuseCode, SessionRef};
use petasos_netio::Route;
use petasos_wire::RejectCode;

use crate::error::SessionError;
use crate::handler::RequestHandle;
use crate::mailbox::Mailbox;
use crate::secure::SessionSecurity;
use crate::sessions::{PeerId, SessionOffer};

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
    /// Take no new sessions.
    Drain,
    /// Accept connections at the listener from now on.
    Accept,
    /// Leave the listener to another process.
    HandOver,
    /// Say goodbye and end.
    Stop,
}
