//! The router of a group, as its node asks it (`docs/spec/route.md`, RT33 to RT37).
//!
//! A node that is given a [`GroupRouter`] answers clients and workers of a group. The node has the
//! connections, their order and their limits; the router decides. It keeps no messages: what is to
//! be told is read from its tables when a connection has room (C15), so that a peer who reads
//! slowly costs it nothing.
//!
//! Who may touch what: the node's control thread calls the router. To other threads, such as those
//! of the data plane, the router has its own channels, and [`crate::Node::turn_router`] wakes it.

use std::net::IpAddr;
use std::sync::Arc;

use petasos_base::Time;
pub use petasos_control::{
    Active, AttachParams, ClientChange, Epoch, GroupError as TellError, GroupEvent, JoinParams,
    Leave, Member, MemberChange, MemberState, PlaceGrant, PlaceParams, Refusal, Told,
};
use petasos_control::{AttachGrant, JoinGrant, RefuseCode};
use petasos_tls::Identity;

/// A connection to a client or worker process. A later connection may get the same number, but not
/// before [`GroupRouter::on_gone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerLink(pub(crate) u64);

/// The process at the other end of a connection.
#[derive(Clone, Debug)]
pub struct GroupPeer {
    /// The connection.
    pub link: PeerLink,
    /// Its IP address.
    pub ip: IpAddr,
    /// What it has proved; `None` without TLS.
    pub identity: Option<Arc<Identity>>,
    /// Which start of the process it is (C4).
    pub incarnation: u64,
}

/// What the router says to a peer.
#[derive(Debug)]
pub enum RouterAnswer {
    /// To [`GroupEvent::AttachRequested`].
    Attach {
        /// The attempt.
        id: u64,
        /// The attachment, and whether this router is the active one.
        result: Result<(AttachGrant, Active), RefuseCode>,
    },
    /// To [`GroupEvent::JoinRequested`].
    Join {
        /// The attempt.
        id: u64,
        /// The membership.
        result: Result<JoinGrant, Refusal>,
    },
    /// To [`GroupEvent::PlaceRequested`].
    Place {
        /// The attempt.
        id: u64,
        /// The worker.
        result: Result<PlaceGrant, RefuseCode>,
    },
    /// A client or worker has to leave (RT35).
    Leave(Leave),
}

/// What a router says, to whom.
pub type RouterAnswers = Vec<(PeerLink, RouterAnswer)>;

/// See the module's documentation.
pub trait GroupRouter: Send {
    /// A client or worker has said something: one of the events that are a router's. A request may
    /// be answered at once or later, as long as its connection stands.
    fn on_event(
        &mut self,
        now: Time,
        peer: &GroupPeer,
        event: GroupEvent,
        answers: &mut RouterAnswers,
    );

    /// A connection has ended, and with it what was unanswered. `is_broken`: not on purpose, so
    /// that clients and workers may come back (RT35).
    fn on_gone(&mut self, now: Time, link: PeerLink, is_broken: bool);

    /// Tells a peer what it has to know next. Called whenever the connection has room; after an
    /// error of `tell`, nothing was sent, and the same is to be told again later.
    fn tell(&mut self, peer: &GroupPeer, tell: &mut dyn FnMut(Told) -> Result<(), TellError>);

    /// Does what is due. Returns when to be called again at the latest.
    fn turn(&mut self, now: Time, answers: &mut RouterAnswers) -> Time;
}
