//! What an endpoint and other threads tell each other: the control thread and workers.

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
    /// The peer has given up a session; this endpoint's end is named.
    Disconnected { link: PeerId, session: SessionRef },
    /// A session that this endpoint granted was never heard of by its client.
    Void { session: SessionRef },
    /// A control connection has ended.
    PeerLost { link: PeerId, error: SessionError },
    /// The process shuts down gracefully.
    Drain,
    /// A route of this endpoint leads nowhere any more: rings that broke were not made anew.
    RouteLost { route: Route },
    /// The node is gone; there are no control connections any more.
    NodeEnded,
    /// A worker has finished.
    Answer(Box<WorkerAnswer>),
}

/// What a worker sends back.
pub(crate) struct WorkerAnswer {
    pub(crate) handle: RequestHandle,
    pub(crate) request: MsgBuf,
    pub(crate) result: Result<MsgBuf, RejectCode>,
}

/// What a server granted, and over which connection.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) link: PeerId,
    /// Where the server was asked.
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
    /// Tell the peer that a session is given up; the peer's end is named.
    Disconnect { link: PeerId, session: SessionRef },
    /// Ask for nothing local for this endpoint on this link for a while.
    AvoidRings { link: PeerId, endpoint: u16 },
    /// Take no new sessions.
    Drain,
    /// Say goodbye and end.
    Stop,
}
