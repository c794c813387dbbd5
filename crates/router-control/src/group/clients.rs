//! Clients: who attaches, and by which number (RT33, RT39).

use petasos_base::Time;
use petasos_base::sync::Ordering;
use petasos_control::{AttachGrant, NAMES_BYTES_MAX, RefuseCode};
use petasos_endpoint::group_router::{AttachParams, PeerLink, RouterAnswer, RouterAnswers};
use petasos_router_plane::{ClientAttached, TableError};
use petasos_tls::Holder;

use super::{Client, Group, Pending, Ready, code, own_address};
use crate::plane_thread::PlaneCommand;
use crate::secrets::epoch_of_client;

impl Group {
    pub(super) fn on_attach(
        &mut self,
        now: Time,
        (link, id): (PeerLink, u64),
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
        let (holder, names) = (at.holder.clone(), at.names().to_vec());
        if let Err(code) = self.client_numbers.take(&holder) {
            // Numbers come back sooner where they are used up.
            self.epochs.hasten(now);
            return Err(code);
        }
        let pending = Pending::Attach { link: Some(link), id, params, holder, names };
        self.ask(pending, |ticket| PlaneCommand::Attach { ticket, address });
        Ok(())
    }

    pub(super) fn on_attached(
        &mut self,
        (link, id): (Option<PeerLink>, u64),
        (params, holder, names): (AttachParams, Holder, Vec<String>),
        result: Result<ClientAttached, TableError>,
        answers: &mut RouterAnswers,
    ) {
        let ClientAttached { client, tag } = match result {
            Ok(attached) => attached,
            Err(error) => {
                self.client_numbers.undo(&holder);
                self.refused.attaches.fetch_add(1, Ordering::Relaxed);
                let refusal = RouterAnswer::Attach { id, result: Err(code(&error)) };
                return answers.extend(link.map(|link| (link, refusal)));
            }
        };
        self.clients.insert(client, Client { link, tag, holder, until: Time::NEVER });
        let Some(link) = link else {
            // Nobody waits for it any more.
            return self.end_client(client);
        };
        self.client_log.set(client, Some(names));
        let grant = AttachGrant {
            client,
            tag,
            payload_bytes: self.payload_bytes(),
            asked_max: params.asked_max.min(self.settings.asked_max),
            has_no_window: false,
            cipher: self.cipher(),
            // It is the newest that clients know when the grant is given.
            epoch: epoch_of_client(self.secrets.as_mut(), self.epochs.of_clients(), client),
            address: self.data[0],
        };
        self.ready.push(Ready::Attach { link, id, grant, passes: 0 });
    }

    pub(super) fn end_client(&mut self, client: u32) {
        let Some(gone) = self.clients.remove(&client) else { return };
        if let Some(at) = gone.link.and_then(|link| self.links.get_mut(&link)) {
            at.clients.remove(&client);
        }
        self.client_log.set(client, None);
        self.command(PlaneCommand::Detach { client });
        self.client_numbers.hold(&gone.holder);
        self.held_clients.push_back((self.epochs.begun(), client, gone.holder));
    }
}

fn names_bytes(names: &[String]) -> usize {
    names.iter().map(|name| 2 + name.len()).sum()
}
