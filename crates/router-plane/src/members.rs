//! The workers that have joined (RT34).

use std::net::SocketAddr;

use petasos_netio::{Origin, Route};
use petasos_router::{Join, WorkerId};

/// A worker that joins.
#[derive(Clone, Copy, Debug)]
pub struct MemberJoin {
    /// Its number in worker blocks and rosters; not 0. The caller gives it, and keeps it unique.
    pub worker: u16,
    /// Where it receives first packets, and sends feedback from.
    pub address: SocketAddr,
    /// Its index and tag for the router.
    pub session: u32,
    /// See `session`.
    pub tag: u32,
    /// What it takes, and who it is.
    pub join: Join,
    /// Whether it joins as primary (RT5).
    pub is_primary: bool,
}

/// What a worker is told for its feedback (RT34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberJoined {
    /// The membership.
    pub id: WorkerId,
    /// The router's index of the worker.
    pub session: u32,
    /// The router's tag for it.
    pub tag: u32,
    /// 40 bits that only the two know.
    pub secret: u64,
}

/// A worker.
pub(crate) struct Member {
    pub(crate) id: WorkerId,
    pub(crate) worker: u16,
    pub(crate) route: Route,
    pub(crate) origin: Origin,
    /// Its index and tag for the router.
    pub(crate) session: u32,
    pub(crate) tag: u32,
    /// The router's tag for it, and the secret bits.
    pub(crate) own_tag: u32,
    pub(crate) secret: u64,
}

/// By the core's place, which is the router's index of the worker in feedback.
pub(crate) struct Members(Vec<Option<Member>>);

impl Members {
    pub(crate) fn new(workers_max: usize) -> Members {
        Members((0..workers_max).map(|_| None).collect())
    }

    /// Puts a member in its place. The one that was there before, if it was not taken out.
    pub(crate) fn put(&mut self, member: Member) -> Option<Member> {
        let place = member.id.index();
        self.0[place].replace(member)
    }

    /// The worker at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<&Member> {
        self.0.get(place)?.as_ref()
    }

    /// A member; not one that was at its place before.
    #[inline]
    pub(crate) fn get(&self, id: WorkerId) -> Option<&Member> {
        self.at(id.index()).filter(|member| member.id == id)
    }

    pub(crate) fn take(&mut self, id: WorkerId) -> Option<Member> {
        self.0.get_mut(id.index())?.take_if(|member| member.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.iter().flatten()
    }
}
