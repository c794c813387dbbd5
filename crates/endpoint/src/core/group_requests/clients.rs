//! Clients of groups, at a worker: each is a session to the layers above.

use std::net::SocketAddr;
use std::sync::Arc;

use petasos_netio::{Origin, Route};
use petasos_proto::taken::MembershipId;
use petasos_tls::Identity;

use crate::handler::ServerSessionId;
use crate::quota::HolderId;

/// Who a client is, as its router tells (RT29).
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Its names; `None` in a group that is not sealed.
    pub(crate) identity: Option<Arc<Identity>>,
}

/// A client from which first packets have come.
pub(crate) struct GroupClient {
    pub(crate) id: ServerSessionId,
    pub(crate) membership: MembershipId,
    /// Its number at the router.
    pub(crate) number: u32,
    /// The reply address of its first packets (RT26).
    pub(crate) address: SocketAddr,
    pub(crate) route: Route,
    pub(crate) origin: Origin,
    pub(crate) holder: HolderId,
    /// Who it is; `None` if the router has not told of it: its first packets are rejected.
    pub(crate) told: Option<Told>,
    /// Whether first packets under its number are its own. Others end when their last request has.
    pub(crate) is_current: bool,
}

/// By place.
#[derive(Default)]
pub(crate) struct Clients {
    places: Vec<Option<GroupClient>>,
    free: Vec<u32>,
}

/// Where the clients of a router are that are current, by their numbers there. Numbers that are not
/// in use cost 4 bytes each, up to the highest: a router gives low ones, and no more than 2^20.
#[derive(Default)]
pub(crate) struct Current(Vec<u32>);

/// No place.
const NOBODY: u32 = u32::MAX;

impl Current {
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<u32> {
        self.0.get(number as usize).copied().filter(|place| *place != NOBODY)
    }

    pub(super) fn set(&mut self, number: u32, place: Option<u32>) {
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, NOBODY);
        }
        self.0[at] = place.unwrap_or(NOBODY);
    }
}

impl Clients {
    #[inline]
    pub(crate) fn at(&self, place: u32) -> &GroupClient {
        self.places[place as usize].as_ref().expect("a client with requests is there")
    }

    pub(super) fn at_mut(&mut self, place: u32) -> &mut GroupClient {
        self.places[place as usize].as_mut().expect("a client with requests is there")
    }

    pub(crate) fn get(&self, session: ServerSessionId) -> Option<&GroupClient> {
        let place = session.is_group().then(|| session.group_place())?;
        self.places.get(place as usize)?.as_ref().filter(|client| client.id == session)
    }

    /// Adds a client, in a place that no other has.
    pub(super) fn add(&mut self, make: impl FnOnce(u32) -> GroupClient) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        self.places[place as usize] = Some(make(place));
        place
    }

    /// Takes a client out that is not current.
    pub(super) fn take(&mut self, place: u32) -> Option<GroupClient> {
        let client = self.places.get_mut(place as usize)?.take_if(|client| !client.is_current)?;
        self.free.push(place);
        Some(client)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The places of those for which `is` holds.
    pub(super) fn places(&self, is: impl Fn(&GroupClient) -> bool) -> Vec<u32> {
        let there = self.places.iter().enumerate();
        let those = there.filter(|(_, it)| it.as_ref().is_some_and(&is));
        those.map(|(place, _)| place as u32).collect()
    }
}
