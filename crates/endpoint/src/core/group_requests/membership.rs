//! Memberships: the routers that give this endpoint requests.

use std::collections::HashMap;

use petasos_control::JoinGrant;
use petasos_netio::{Origin, Route};
use petasos_proto::SessionParams;
use petasos_proto::taken::MembershipId;
use petasos_wire::{Feedback, Group, WorkerCounts};

use super::clients::{Current, Told};
use super::keys::KeysAt;
use crate::method_table::OwnMethods;

/// What this endpoint has offered a router, or agreed on with it (RT34).
pub(crate) struct Membership {
    pub(crate) id: MembershipId,
    /// The tag that the router's first packets carry.
    pub(crate) tag: u32,
    /// `None` until the router has granted it.
    pub(crate) joined: Option<Box<Joined>>,
}

/// A membership that the router has granted.
pub(crate) struct Joined {
    /// This worker's number at the router.
    pub(crate) worker: u16,
    pub(crate) group: Group,
    /// Where first packets come from, and the route by which that is known.
    pub(crate) source: Origin,
    pub(super) source_route: Route,
    /// Where feedback goes.
    pub(crate) feedback: Route,
    session: u32,
    tag: u32,
    secret: u64,
    /// Of the sessions of its pairs, but for names and tags.
    pub(crate) params: SessionParams,
    /// The newest epoch, and the one before while that is taken (RT30).
    pub(super) epochs: [Option<u16>; 2],
    /// Of a sealed group.
    pub(super) keys: Option<KeysAt>,
    /// The clients that the router has told of, by number (RT29).
    pub(crate) told: HashMap<u32, Told>,
    /// Those of them, and others, from which first packets have come.
    pub(super) current: Current,
    pub(super) clients_max: usize,
    /// The endpoint's numbers of methods, by the group's. `None`: they are the same.
    pub(super) methods: Option<OwnMethods>,
}

impl Joined {
    pub(crate) fn new(
        grant: &JoinGrant,
        (source_route, source): (Route, Origin),
        feedback: Route,
        params: SessionParams,
    ) -> Joined {
        let is_sealed = grant.cipher.is_some();
        Joined {
            worker: grant.worker,
            group: Group { payload_bytes: u32::from(grant.payload_bytes), is_sealed },
            source,
            source_route,
            feedback,
            session: grant.session,
            tag: grant.tag,
            secret: grant.secret,
            params,
            epochs: [Some(grant.epoch.number), None],
            keys: None,
            told: HashMap::new(),
            current: Current::default(),
            // Some that are gone are held back (RT39).
            clients_max: 2 * grant.clients_max as usize,
            methods: None,
        }
    }

    /// Whether first packets of an epoch are taken (RT30).
    #[inline]
    pub(crate) fn takes_epoch(&self, epoch: u16) -> bool {
        self.epochs.contains(&Some(epoch))
    }

    /// The endpoint's number of a method; `None` if it does not have it.
    #[inline]
    pub(crate) fn own_method(&self, method: u16) -> Option<u16> {
        match &self.methods {
            None => Some(method),
            Some(methods) => methods.get(method),
        }
    }

    /// What the router is told (RT20).
    pub(super) fn feedback(&self, counts: WorkerCounts, failed: u8) -> Feedback {
        Feedback { session: self.session, tag: self.tag, secret: self.secret, counts, failed }
    }
}
