//! Workers for callers that stay: streams, and whoever wants one worker (RT37).
//!
//! A place is a hint: the client connects to the worker, which may refuse. Workers are placed at in
//! turn, since the router does not hear how long a caller stays.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use petasos_control::RefuseCode;
use petasos_endpoint::RoutePolicy;
use petasos_endpoint::group_router::{PlaceGrant, PlaceParams};

use super::Group;
use super::workers::identity_of;

impl Group {
    /// A worker for a client; its address is that of its own connection, and its dial port.
    pub(super) fn on_place(&mut self, params: &PlaceParams) -> Result<PlaceGrant, RefuseCode> {
        let avoided = |number: u16| Some(number) == params.avoid;
        let there = self.placeable();
        // Better the same again than none.
        let rest: Vec<_> = there.iter().copied().filter(|(number, _)| !avoided(*number)).collect();
        let there = if rest.is_empty() { there } else { rest };
        let found = match params.policy {
            RoutePolicy::Primary => {
                // One that has just joined is not the plane's primary yet.
                let those = there.into_iter().filter(|(number, _)| self.workers[number].is_primary);
                those.max_by_key(|(number, _)| Some(self.workers[number].id) == self.primary)
            }
            RoutePolicy::Hash => {
                // The greatest of hashes of key and worker: who comes or goes moves its own keys.
                let rank = |number: u16| {
                    let (_, names, address) = &self.workers[&number].key;
                    let mut hasher = DefaultHasher::new();
                    (params.key_hash, identity_of(names, *address)).hash(&mut hasher);
                    hasher.finish()
                };
                there.into_iter().max_by_key(|(number, _)| rank(*number))
            }
            _ => {
                let next = there.iter().copied().find(|(number, _)| *number > self.placed_last);
                next.or(there.first().copied())
            }
        };
        let (worker, address) = found.ok_or(RefuseCode::SessionsFull)?;
        self.placed_last = worker;
        Ok(PlaceGrant { worker, address })
    }

    /// An operator has drained a worker: nobody is placed there; or lets it have callers again.
    pub(crate) fn set_drained(&mut self, number: u16, is_drained: bool) {
        // It may have been freed meanwhile.
        if is_drained && self.worker_keys.values().any(|known| *known == number) {
            self.drained.insert(number);
        } else {
            self.drained.remove(&number);
        }
    }

    /// Workers whose connections stand, that clients can dial, and that are not drained, by number.
    fn placeable(&self) -> Vec<(u16, SocketAddr)> {
        let workers = self.workers.iter().filter(|(_, worker)| worker.link.is_some());
        let workers = workers.filter(|(number, _)| !self.drained.contains(number));
        workers.filter_map(|(number, worker)| Some((*number, worker.dial?))).collect()
    }
}
