//! What operators see of a group's members, and change.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_control::Active;
use petasos_endpoint::Mailbox;
use petasos_router_plane::ClientCounts;

use super::Group;
use crate::plane_thread::{Operated, PlaneCommand};
use crate::snapshot::{ClientSnapshot, GroupSnapshot, MemberSettings, WorkerSnapshot};

/// What this thread knows of a snapshot.
pub(crate) struct KnownHere {
    /// Numbers, addresses and names, by number.
    workers: Vec<(u16, SocketAddr, Vec<String>)>,
    connections: usize,
    epoch: (u16, u64),
    active: (bool, u32),
    refused: (u64, u64),
    payload_bytes: u32,
    services: Vec<String>,
}

impl KnownHere {
    /// With what the plane's thread knows. A worker that one of the two does not know is about to
    /// come or to go, and left out.
    pub(crate) fn with(self, at: &Operated<'_>) -> GroupSnapshot {
        let Operated { plane, now, io, .. } = at;
        let states: BTreeMap<_, _> = plane.member_states().collect();
        let workers = self.workers.into_iter().filter_map(|(worker, address, names)| {
            let state = *states.get(&worker)?;
            let heard_ago = *now - state.heard_at;
            Some(WorkerSnapshot { worker, address, names, state, heard_ago })
        });
        GroupSnapshot {
            counts: *plane.counts(),
            stats: *plane.stats(),
            io: *io,
            tier: plane.tier_stats(),
            rejections: *plane.rejections(),
            waiting: plane.waiting(),
            waiting_bytes: plane.waiting_bytes(),
            adjustment: plane.adjustment(),
            workers: workers.collect(),
            primary: plane.primary(),
            clients: plane.clients(),
            connections: self.connections,
            epoch: self.epoch,
            active: self.active,
            refused: self.refused,
            payload_bytes: self.payload_bytes,
            services: self.services,
        }
    }
}

impl Group {
    /// Does what operators want.
    pub(super) fn serve_operators(&mut self) {
        for work in self.desk.take() {
            work(self);
        }
    }

    pub(crate) fn plane(&self) -> &Arc<Mailbox<PlaneCommand>> {
        &self.plane
    }

    pub(crate) fn part_of_snapshot(&self) -> KnownHere {
        let workers = self.workers.iter().map(|(number, worker)| {
            let (_, names, address) = &worker.key;
            (*number, *address, names.clone())
        });
        let active = self.settings.active;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        KnownHere {
            workers: workers.collect(),
            connections: self.links.len(),
            epoch: (self.epochs.newest(), self.epochs.begun()),
            active: (active.is_active, active.term),
            refused: (read(&self.refused.attaches), read(&self.refused.joins)),
            payload_bytes: self.settings.plane.payload_bytes,
            services: self.settings.services.clone(),
        }
    }

    /// At most so many clients whose numbers are above `after`, and whether there are more.
    pub(crate) fn clients_after(
        &self,
        after: Option<u32>,
        most: usize,
    ) -> (Vec<ClientSnapshot>, bool) {
        let from = after.map_or(Some(0), |after| after.checked_add(1));
        let Some(from) = from else { return (Vec::new(), false) };
        let mut clients = self.clients.range(from..);
        let listed = clients.by_ref().take(most).map(|(number, client)| {
            let link = client.link.and_then(|link| self.links.get(&link));
            ClientSnapshot {
                client: *number,
                peer: link.map(|link| link.peer.ip),
                names: link.map(|link| link.names().to_vec()).unwrap_or_default(),
                counts: ClientCounts::default(),
                waiting: 0,
            }
        });
        let listed = listed.collect();
        (listed, clients.next().is_some())
    }

    pub(crate) fn set_active(&mut self, active: Active) {
        self.settings.active = active;
    }

    pub(crate) fn set_members(&mut self, settings: MemberSettings) {
        let MemberSettings { workers, asked_max, clients_max, routers } = settings;
        self.client_numbers.set_max(clients_max as usize);
        if routers != self.settings.routers {
            self.links.values_mut().for_each(|link| link.tell_routers_again());
        }
        self.settings.workers = workers;
        self.expel_others();
        self.settings.asked_max = asked_max;
        self.settings.routers = routers;
    }
}
