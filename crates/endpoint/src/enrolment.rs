//! What endpoints and the control thread tell each other about the routers of groups.
//!
//! An *enrolment* is one attempt of an endpoint to be attached to a router (RT33) or to join it
//! (RT34), and what comes of it. It begins with a command; its last news is [`Ended`]. Whether
//! there will be another one, the endpoint decides.
//!
//! What a router tells is kept in [`News`] until the endpoint reads it, newest only: a router that
//! tells much costs a mailbox one message, and memory for what there can be at a time.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_control::{
    Active, AttachGrant, AttachParams, DataAddress, Epoch, JoinGrant, JoinParams, PlaceGrant, Table,
};
use petasos_tls::Identity;
use petasos_wire::RoutePolicy;

use crate::error::SessionError;
use crate::sessions::PeerId;

/// Names an enrolment. No two of a node have the same.
pub(crate) type EnrolmentId = u64;

/// What an endpoint asks a router for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberRequest {
    Attach(AttachParams),
    Join(JoinParams),
}

/// Which worker an endpoint wants to be placed at (RT37).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceWish {
    pub(crate) policy: RoutePolicy,
    pub(crate) key_hash: u32,
    /// A worker that has just failed.
    pub(crate) avoid: Option<u16>,
}

/// What a router has granted.
#[derive(Debug)]
pub(crate) enum Grant {
    Attached(Box<AttachGrant>),
    Joined(Box<JoinGrant>),
}

/// A grant, and on which connection it came.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    pub(crate) link: PeerId,
    pub(crate) router_ip: IpAddr,
    /// This host's, on the connection.
    pub(crate) local_ip: IpAddr,
    /// The router's process (C4).
    pub(crate) incarnation: u64,
}

/// How an enrolment has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// There was no grant. The text is the router's, for people; it may be empty.
    NotGranted(SessionError, String),
    /// The connection broke. The router may go on with packets (RT35).
    Broken(SessionError),
    /// The router has ended it, alone or with the connection, or has failed.
    Closed(SessionError),
}

/// What an endpoint wants to be reminded of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reminder {
    /// The time of an enrolment whose connection has ended is over (RT35).
    Outlived,
    /// The router is to be asked again.
    AskAgain,
    /// A router has told of routers, and again too soon.
    Routers,
    /// Whether numbers of first packets are still to be had (RT3).
    Worn,
    /// If this epoch is still the newest, the one before is not taken any more (RT30).
    EpochOver(u16),
}

/// What a router has told since the endpoint read it last.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) granted: Option<Granted>,
    /// Whether *members* has come; the roster may be empty.
    pub(crate) has_roster: bool,
    /// By worker; `None`: it is gone.
    pub(crate) members: BTreeMap<u16, Option<DataAddress>>,
    /// By client; the outer `None`: it is gone, the inner: it has no name.
    pub(crate) clients: BTreeMap<u32, Option<Option<Arc<Identity>>>>,
    /// The newest table of methods that is complete.
    pub(crate) table: Option<Arc<[Table]>>,
    /// The newest, by its number.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) active: Option<Active>,
    pub(crate) routers: Option<Vec<SocketAddr>>,
    pub(crate) is_draining: bool,
    /// Where the router has placed the endpoint (RT37).
    pub(crate) placed: Option<Result<PlaceGrant, SessionError>>,
    pub(crate) ended: Option<Ended>,
}

/// Where the news of an enrolment is left.
#[derive(Default)]
pub(crate) struct Inbox {
    news: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    news: News,
    /// Whether the endpoint has been told that there is some.
    is_posted: bool,
}

impl Inbox {
    /// Leaves news. Returns whether the endpoint has to be told that there is some.
    #[must_use]
    pub(crate) fn leave(&self, write: impl FnOnce(&mut News)) -> bool {
        let mut pending = self.lock();
        write(&mut pending.news);
        !core::mem::replace(&mut pending.is_posted, true)
    }

    /// Takes the news.
    pub(crate) fn take(&self) -> News {
        let mut pending = self.lock();
        pending.is_posted = false;
        core::mem::take(&mut pending.news)
    }

    /// Leaves routers that were told for later, unless there is newer news of them.
    pub(crate) fn put_back(&self, routers: &[SocketAddr]) {
        self.lock().news.routers.get_or_insert_with(|| routers.to_vec());
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.news.lock().expect("nothing panics under the lock")
    }
}
