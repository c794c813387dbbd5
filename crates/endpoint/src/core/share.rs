//! The sessions of an endpoint as sharers of its receive queue (W26).

use petasos_proto::pairs::PAIR_BIT;
use petasos_proto::{CreditShare, Membership, Sharer, Sharers};

use super::group_calls::GroupCalls;
use super::group_requests::GroupRequests;
use super::half::Half;
use super::{CallContext, Core};
use crate::sessions::{ClientEntry, ServerEntry, Table, ready};

struct Halves<'a, S> {
    clients: &'a mut Table<ClientEntry<CallContext<S>>>,
    servers: &'a mut Table<ServerEntry>,
    calls: Option<&'a mut GroupCalls<S>>,
    requests: Option<&'a mut GroupRequests>,
}

impl<S> Core<S> {
    fn halves(&mut self) -> (&mut CreditShare<Half>, Halves<'_, S>) {
        let Core { clients, servers, group_calls, group_requests, share, .. } = self;
        let (calls, requests) = (group_calls.as_deref_mut(), group_requests.as_deref_mut());
        (share, Halves { clients, servers, calls, requests })
    }
}

impl<S> Sharers for Halves<'_, S> {
    type Key = Half;

    fn sharer(&mut self, half: Half) -> Option<&mut dyn Sharer> {
        match half {
            Half::Server(index) if index & PAIR_BIT != 0 => {
                Some(&mut self.requests.as_deref_mut()?.session_mut(index)?.session)
            }
            Half::Client(index) => Some(ready(self.clients.get_mut(index)?)?),
            Half::Server(index) => Some(&mut self.servers.get_mut(index)?.session),
            Half::Link(id) => Some(self.calls.as_deref_mut()?.path_mut(id)?),
        }
    }
}

impl<S> Core<S> {
    /// Gives the session a share, because it has received a part of a long message.
    #[inline(never)]
    pub(crate) fn share_with(&mut self, half: Half) {
        let membership = match half {
            Half::Client(index) => {
                let session = self.clients.get_mut(index).and_then(ready);
                session.map(|session| session.membership())
            }
            Half::Link(_) => self.group_membership(half),
            Half::Server(index) => match self.servers.get(index) {
                Some(entry) => Some(entry.session.membership()),
                None => self.group_membership(half),
            },
        };
        if membership.is_some_and(|membership| !self.share.has(membership)) {
            let now = self.now;
            let (share, mut halves) = self.halves();
            share.join(half, &mut halves, now);
        }
    }

    #[cold]
    fn group_membership(&mut self, half: Half) -> Option<Membership> {
        let (_, mut halves) = self.halves();
        halves.sharer(half).map(|sharer| *sharer.membership_mut())
    }

    #[cold]
    pub(crate) fn end_share_epoch(&mut self) {
        let now = self.now;
        let (share, mut halves) = self.halves();
        share.end_epoch(&mut halves, now);
    }
}
