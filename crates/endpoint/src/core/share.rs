//! The sessions of an endpoint as sharers of its receive queue (W26).

use petasos_proto::{Sharer, Sharers};

use super::{CallContext, Core};
use crate::sessions::{ClientEntry, ServerEntry, Table, ready};

/// The local half of a session. If its index has become another session's, that is harmless: the
/// other holds no share unless it joins by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Half {
    Client(u32),
    Server(u32),
}

struct Halves<'a, S> {
    clients: &'a mut Table<ClientEntry<CallContext<S>>>,
    servers: &'a mut Table<ServerEntry>,
}

impl<S> Sharers for Halves<'_, S> {
    type Key = Half;

    fn sharer(&mut self, half: Half) -> Option<&mut dyn Sharer> {
        match half {
            Half::Client(index) => Some(ready(self.clients.get_mut(index)?)?),
            Half::Server(index) => Some(&mut self.servers.get_mut(index)?.session),
        }
    }
}

impl<S> Core<S> {
    /// Gives the session a share, because it has received a part of a long message.
    #[inline(never)]
    pub(crate) fn share_with(&mut self, half: Half) {
        let membership = match half {
            Half::Client(index) => {
                self.clients.get_mut(index).and_then(ready).map(|session| session.membership())
            }
            Half::Server(index) => self.servers.get(index).map(|entry| entry.session.membership()),
        };
        if membership.is_some_and(|membership| !self.share.has(membership)) {
            let Core { clients, servers, .. } = self;
            self.share.join(half, &mut Halves { clients, servers }, self.now);
        }
    }

    #[cold]
    pub(crate) fn end_share_epoch(&mut self) {
        let Core { clients, servers, .. } = self;
        self.share.end_epoch(&mut Halves { clients, servers }, self.now);
    }
}
