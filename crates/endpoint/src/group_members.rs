//! What an endpoint has at the routers of groups: the data of `called_groups` and `served_groups`.
//!
//! Set-up state: only mail and the program's own calls use it.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::Time;
use petasos_control::{Active, PlaceGrant};
use petasos_proto::taken::MembershipId;

use crate::enrolment::{EnrolmentId, Inbox};
use crate::error::SessionError;
use crate::group::MEMBERSHIPS_MAX;
use crate::method_table::MethodNames;
use crate::router_list::{RouterFailure, RouterList};
use crate::sessions::{PeerId, SessionId};

/// The most groups that an endpoint calls, and that it serves.
pub(crate) const GROUPS_MAX: usize = 64;

/// A group that an endpoint calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u32);

/// A group whose requests an endpoint serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServedGroupId(pub(crate) u32);

/// How to call a group.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// The control addresses of its routers, 1 to 8. They may tell of others.
    pub routers: Vec<SocketAddr>,
    /// How many calls may wait for an answer from the group at a time, at one router: at most 2^19.
    /// The router may grant less.
    pub asked_max: u32,
    /// Whether calls that ask one router ask another one when that is better (RT38): only if method
    /// numbers mean the same to all of them. Otherwise, calls that ask a router whose connection
    /// has ended end when there is a better one, most of them with [`crate::CallError::NotSent`].
    pub moves_calls: bool,
    /// Whether to attach also to routers that those tell of.
    pub hears_of_others: bool,
}

impl Default for GroupConfig {
    fn default() -> GroupConfig {
        let (routers, asked_max) = (Vec::new(), 4096);
        GroupConfig { routers, asked_max, moves_calls: true, hears_of_others: true }
    }
}

/// How to serve a group's requests.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The control addresses of its routers, at most 8. They may tell of others.
    pub routers: Vec<SocketAddr>,
    /// How many requests to take at a time from each router, at most 4095. 0: none yet.
    pub bound: u16,
    /// Choose that number from the endpoint's idle time instead, up to `bound`: so many threads run
    /// the handlers (1: the loop). They should compute, and not wait for others
    /// ([`IdleBound`](petasos_proto::IdleBound)). An endpoint has one such number for all of its
    /// groups.
    pub idle_threads: Option<u16>,
    /// The part of the requests, in percent of what a worker of full weight gets: 1 to 100. More
    /// counts as 100, and 0 as 1.
    pub weight: u16,
    /// Whether to join as primary (RT5).
    pub is_primary: bool,
    /// The port at which clients may dial this process for sessions (RT37); `None`: they may not.
    pub dial_port: Option<u16>,
    /// The endpoint's methods by name, if the group has a table of methods (RT31): requests then
    /// name methods by the table's numbers. `None`: clients know the endpoint's own numbers.
    pub methods: Option<MethodNames>,
}

impl Default for ServeConfig {
    fn default() -> ServeConfig {
        ServeConfig {
            routers: Vec::new(),
            bound: 16,
            idle_threads: None,
            weight: 100,
            is_primary: false,
            dial_port: None,
            methods: None,
        }
    }
}

/// Why a group was not opened, or is not served. The caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupOpenError {
    /// The endpoint is not attached to a node, or the node has ended.
    NotAttached,
    /// None, or more than 8.
    Routers,
    /// A number in the settings is out of its range.
    OutOfRange(&'static str),
    /// The endpoint has as many groups as it may have, or serves at as many routers.
    TooMany,
    /// The packet I/O is of rings or TCP only; groups need datagrams.
    NoDatagrams,
}

impl fmt::Display for GroupOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupOpenError::NotAttached => f.write_str("the endpoint is not attached to a node"),
            GroupOpenError::Routers => f.write_str("a group has 1 to 8 routers"),
            GroupOpenError::OutOfRange(what) => write!(f, "`{what}` is out of its range"),
            GroupOpenError::TooMany => f.write_str("the endpoint has too many groups"),
            GroupOpenError::NoDatagrams => f.write_str("groups are reached by datagrams only"),
        }
    }
}

impl std::error::Error for GroupOpenError {}

/// What an endpoint has at one router of a group.
#[derive(Clone, Debug)]
pub struct AtRouter {
    /// The router's control address.
    pub router: SocketAddr,
    /// Whether the endpoint is a member there: attached, or joined.
    pub is_member: bool,
    /// Whether the connection with it stands, and it has told what a member needs to know.
    pub is_connected: bool,
    /// Whether the router has said that it is the active one (RT38).
    pub is_active: bool,
    /// The term with which it has said so; 0 otherwise.
    pub term: u32,
    /// Workers in its roster, for groups that are called; clients that it has told of, for groups
    /// that are served.
    pub peers: usize,
    /// Why the endpoint is no member, or was none for a while.
    pub failure: Option<RouterFailure>,
}

/// The groups of an endpoint.
#[derive(Default)]
pub(crate) struct EndpointGroups {
    pub(crate) called: Vec<CalledGroup>,
    pub(crate) served: Vec<ServedGroup>,
    next_id: u32,
    /// Counts what routers have said of being active: the latest counts among equals.
    said: u64,
}

/// A group that is called.
pub(crate) struct CalledGroup {
    pub(crate) id: GroupId,
    pub(crate) asked_max: u32,
    pub(crate) moves_calls: bool,
    pub(crate) hears_of_others: bool,
    pub(crate) routers: RouterList,
    /// Inboxes of what was asked and has not ended.
    pub(crate) inboxes: Vec<(EnrolmentId, Arc<Inbox>)>,
    pub(crate) attached: Vec<Attached>,
    /// The attachment that calls go by.
    pub(crate) used: Option<SessionId>,
    /// Attachments that are gone, as long as calls that were made by them are not over.
    pub(crate) former: Vec<SessionId>,
    /// When a router was last heard that told of routers.
    pub(crate) told_at: Time,
    pub(crate) places: Places,
}

/// What has become of the last question for a place.
#[derive(Default)]
pub(crate) struct Places {
    /// The attachment by which was asked, as long as there is no answer.
    pub(crate) asked: Option<EnrolmentId>,
    /// What was granted last, and by which attachment.
    pub(crate) last: Option<(EnrolmentId, PlaceGrant)>,
    /// An answer that was not taken yet.
    pub(crate) told: Option<Result<SocketAddr, SessionError>>,
}

impl Places {
    /// Handles the answer to a question by this attachment.
    pub(crate) fn hear(
        &mut self,
        enrolment: EnrolmentId,
        placed: Result<PlaceGrant, SessionError>,
    ) {
        if self.asked == Some(enrolment) {
            self.asked = None;
            self.last = placed.as_ref().ok().map(|grant| (enrolment, *grant)).or(self.last);
            self.told = Some(placed.map(|grant| grant.address));
        }
    }

    /// Handles the end of an attachment.
    pub(crate) fn forget(&mut self, enrolment: EnrolmentId) {
        self.hear(enrolment, Err(SessionError::ConnectionLost));
    }
}

/// An attachment that stands, or outlives its connection (RT35).
pub(crate) struct Attached {
    pub(crate) enrolment: EnrolmentId,
    pub(crate) router: SocketAddr,
    pub(crate) session: SessionId,
    /// The connection on which it was granted.
    pub(crate) link: PeerId,
    /// Whether *members* has come: it can be used.
    pub(crate) has_roster: bool,
    pub(crate) is_connected: bool,
    pub(crate) is_draining: bool,
    /// Until when it counts last: its packets were not answered.
    pub(crate) silent_until: Time,
    /// Whether its router has granted another that can be used.
    pub(crate) is_replaced: bool,
    /// Whether the numbers of methods that were bound for it are old: another is asked for (RT31).
    pub(crate) is_outdated: bool,
    /// The term with which the router has said that it is active, and when it has said so.
    pub(crate) active: Option<(u32, u64)>,
}

/// A group that is served.
pub(crate) struct ServedGroup {
    pub(crate) id: ServedGroupId,
    pub(crate) config: ServeConfig,
    pub(crate) routers: RouterList,
    pub(crate) inboxes: Vec<(EnrolmentId, Arc<Inbox>)>,
    pub(crate) joined: Vec<Joined>,
    /// When a router was last heard that told of routers.
    pub(crate) told_at: Time,
}

/// A membership, from the offer on.
pub(crate) struct Joined {
    pub(crate) enrolment: EnrolmentId,
    pub(crate) router: SocketAddr,
    pub(crate) id: MembershipId,
    /// The router's process, once it has granted the membership.
    pub(crate) incarnation: Option<u64>,
    pub(crate) is_connected: bool,
    /// The newest epoch that it takes.
    pub(crate) epoch: u16,
}

impl EndpointGroups {
    pub(crate) fn next_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn called(&mut self, id: GroupId) -> Option<&mut CalledGroup> {
        self.called.iter_mut().find(|group| group.id == id)
    }

    /// The group, if it heeds what routers tell of others.
    pub(crate) fn hearing(&mut self, id: GroupId) -> Option<&mut CalledGroup> {
        self.called(id).filter(|group| group.hears_of_others)
    }

    pub(crate) fn served(&mut self, id: ServedGroupId) -> Option<&mut ServedGroup> {
        self.served.iter_mut().find(|group| group.id == id)
    }

    /// The most routers of a group that is served, beside those of the others.
    pub(crate) fn served_routers_max(&self, id: ServedGroupId) -> usize {
        let others = self.served.iter().filter(|it| it.id != id);
        let of_others: usize = others.map(|it| it.routers.iter().count()).sum();
        MEMBERSHIPS_MAX - of_others
    }

    /// The group that is called and has this enrolment.
    pub(crate) fn calling(&self, enrolment: EnrolmentId) -> Option<GroupId> {
        let has = |group: &&CalledGroup| group.inboxes.iter().any(|(id, _)| *id == enrolment);
        self.called.iter().find(has).map(|group| group.id)
    }

    /// The group that is served and has this enrolment.
    pub(crate) fn serving(&self, enrolment: EnrolmentId) -> Option<ServedGroupId> {
        let has = |group: &&ServedGroup| group.inboxes.iter().any(|(id, _)| *id == enrolment);
        self.served.iter().find(has).map(|group| group.id)
    }

    /// Notes that a router has said whether it is active.
    pub(crate) fn note_active(&mut self, id: GroupId, enrolment: EnrolmentId, active: Active) {
        self.said += 1;
        let said = self.said;
        let group = self.called(id);
        let attached = group.and_then(|group| group.attached_by(enrolment));
        let Some(attached) = attached else { return };
        let term = active.is_active.then_some(active.term);
        // Each attachment of a connection is followed by it, for all of them: only news counts.
        if attached.active.map(|(term, _)| term) != term {
            attached.active = term.map(|term| (term, said));
        }
    }

    /// All enrolments.
    pub(crate) fn enrolments(&self) -> impl Iterator<Item = EnrolmentId> {
        let called = self.called.iter().flat_map(|group| &group.inboxes);
        let served = self.served.iter().flat_map(|group| &group.inboxes);
        called.chain(served).map(|(id, _)| *id)
    }
}

impl CalledGroup {
    pub(crate) fn attached_by(&mut self, enrolment: EnrolmentId) -> Option<&mut Attached> {
        self.attached.iter_mut().find(|it| it.enrolment == enrolment)
    }

    /// The attachment that calls should go by (RT38): one whose packets are answered, as far as is
    /// known; of these the router that is said to be active with the greatest term, of equal ones
    /// the latest; before it any whose router knows a worker, which one that has just started does
    /// not, and then any whose connection stands and that does not drain, since what asks by
    /// another may wait for nothing. Among equals the one that is used: who comes and goes does not
    /// pull all calls to itself.
    pub(crate) fn best(
        &self,
        now: Time,
        has_workers: impl Fn(SessionId) -> bool,
    ) -> Option<SessionId> {
        let usable = self.attached.iter().filter(|it| it.has_roster);
        let best = usable.max_by_key(|it| {
            let is_used = Some(it.session) == self.used;
            let is_answered = it.silent_until <= now;
            let is_open = it.is_connected && !it.is_draining;
            let is_bound = !it.is_outdated;
            // One whose connection is gone may have a data plane that goes on (RT35), while the
            // next process has no worker yet.
            let may_serve = is_open || (is_answered && !it.is_draining);
            let serves = may_serve && has_workers(it.session);
            (serves, is_open, is_answered, it.active, is_bound, is_used)
        });
        best.map(|it| it.session)
    }
}

impl ServedGroup {
    pub(crate) fn joined_by(&mut self, enrolment: EnrolmentId) -> Option<&mut Joined> {
        self.joined.iter_mut().find(|it| it.enrolment == enrolment)
    }
}

/// How long what was agreed on outlives its control connection (RT35).
pub(crate) const OUTLIVE: Duration = Duration::from_secs(10);
/// How long an attachment that has ended, or has another in its place, hears answers (RT35): as
/// long as a pair waits for one (RT13). What asks by it meanwhile finds another, or ends.
pub(crate) const OUTLIVE_ENDED: Duration = Duration::from_secs(2);
/// Routers that are told of are heeded once in this time.
pub(crate) const ROUTERS_AFTER: Duration = Duration::from_secs(1);
/// How long an attachment counts last whose packets were not answered.
pub(crate) const SILENT_FOR: Duration = Duration::from_secs(10);
/// How often to look whether an attachment's numbers are used up (RT3).
pub(crate) const WORN_AFTER: Duration = Duration::from_secs(600);
/// How long an epoch is taken after a newer one was heard of: *overlap* and 2 s (RT30).
pub(crate) const EPOCH_OVER: Duration = Duration::from_secs(12);
