//! Clients: who attaches, and by which number (RT33, RT39).

use petasos_base::Time;
use petasos_base::sync::Ordering;
use petasos_control::{AttachGrant, NAMES_BYTES_MAX, RefuseCode};
use petasos_endpoint::group_router::{AttachParams, Member, PeerLink, RouterAnswer, RouterAnswers};
use petasos_router_plane::{ClientAttached, TableError};

use super::{Client, Group, Pending, Ready, code, own_address};
use crate::links::epoch;
use crate::plane_thread::PlaneCommand;

impl Group {
    pub(super) fn on_attach(
        &mut self,
        link: PeerLink,
        id: u64,
        params: AttachParams,
    ) -> Result<(), RefuseCode> {
        let at = &self.links[&link];
        if params.payload_bytes_max < self.payload_bytes() {
            return Err(RefuseCode::IncompatibleParameters);
        }
        if names_bytes(at.names()) > NAMES_BYTES_MAX {
            return Err(RefuseCode::NotAuthorised);
        }
        let address = own_address(&params.address, at.peer.ip)?;
        let clients_max = self.settings.plane.clients_max as usize;
        let asked = self.pending.values().filter_map(|pending| match pending {
            Pending::Attach { link, .. } => self.links.get(link).map(|link| &link.holder),
            Pending::Join { .. } => None,
        });
        let holders = self.clients.values().map(|client| &client.holder).chain(asked);
        if holders.filter(|holder| **holder == at.holder).count() >= clients_max.div_ceil(2) {
            return Err(RefuseCode::QuotaUsedUp);
        }
        let pending = Pending::Attach { link, id, params };
        self.ask(pending, |ticket| PlaneCommand::Attach { ticket, address });
        Ok(())
    }

    pub(super) fn on_attached(
        &mut self,
        (link, id, params): (PeerLink, u64, AttachParams),
        result: Result<ClientAttached, TableError>,
        answers: &mut RouterAnswers,
    ) {
        let ClientAttached { client, tag } = match result {
            Ok(attached) => attached,
            Err(error) => {
                self.refused.attaches.fetch_add(1, Ordering::Relaxed);
                return answers
                    .push((link, RouterAnswer::Attach { id, result: Err(code(&error)) }));
            }
        };
        let Some(at) = self.links.get(&link) else {
            // Nobody waits for it any more.
            self.command(PlaneCommand::Detach { client });
            return self.held.push_back((self.epochs.begun(), Member::Client(client)));
        };
        let (holder, names) = (at.holder.clone(), at.names().to_vec());
        let until = Time::NEVER;
        self.clients.insert(client, Client { link: Some(link), tag, holder, until });
        self.client_log.set(client, Some(names));
        let grant = AttachGrant {
            client,
            tag,
            payload_bytes: self.payload_bytes(),
            asked_max: params.asked_max.min(self.settings.asked_max),
            has_no_window: false,
            cipher: None,
            epoch: epoch(self.epochs.of_clients()),
            address: self.data,
        };
        self.ready.push(Ready::Attach { link, id, grant, passes: 0 });
    }

    pub(super) fn end_client(&mut self, client: u32) {
        if let Some(gone) = self.clients.remove(&client) {
            if let Some(at) = gone.link.and_then(|link| self.links.get_mut(&link)) {
                at.clients.remove(&client);
            }
            self.client_log.set(client, None);
            self.command(PlaneCommand::Detach { client });
            self.held.push_back((self.epochs.begun(), Member::Client(client)));
        }
    }
}

fn names_bytes(names: &[String]) -> usize {
    names.iter().map(|name| 2 + name.len()).sum()
}
