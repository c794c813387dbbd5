//! Connections to clients and workers: what each has been told (RT36).

use std::collections::{BTreeMap, BTreeSet};

use petasos_control::{Active, BODY_BYTES_MAX, Epoch};
use petasos_endpoint::group_router::{
    ClientChange, GroupPeer, MemberChange, MemberState, TellError, Told,
};
use petasos_tls::Holder;
use petasos_wire::EPOCHS;

use crate::change_log::ChangeLog;
use crate::methods::{MethodTable, MethodsTold};
use crate::secrets::{Secrets, epoch_of_client, epoch_of_workers};

/// The longest entry of a roster: number, state and an IPv6 address.
const MEMBER_BYTES_MAX: usize = 2 + 1 + 19;

/// What everybody may be told.
pub(crate) struct Tables<'a> {
    /// Of a sealed group.
    pub(crate) secrets: Option<&'a mut Secrets>,
    pub(crate) members: &'a ChangeLog<u16, MemberState>,
    pub(crate) clients: &'a ChangeLog<u32, Vec<String>>,
    /// Of workers, and of clients.
    pub(crate) epochs: (u16, u16),
    /// How many epochs have begun.
    pub(crate) begun: u64,
    pub(crate) routers: &'a [std::net::SocketAddr],
    pub(crate) active: Active,
    /// `None`: the group has no table of methods.
    pub(crate) methods: Option<&'a MethodTable>,
}

/// A connection.
pub(crate) struct Link {
    pub(crate) peer: GroupPeer,
    pub(crate) holder: Holder,
    /// Its clients, each with the epoch that it was told.
    pub(crate) clients: BTreeMap<u32, u16>,
    /// Its workers.
    pub(crate) workers: Vec<u16>,
    /// Attempts to join that are not answered.
    pub(crate) joining: BTreeSet<u64>,
    /// The newest changes that were told.
    pub(crate) members_told: Option<u64>,
    pub(crate) clients_told: u64,
    /// The epoch that its workers were told.
    pub(crate) epoch_told: Option<u16>,
    /// How many had begun with the one that they have confirmed.
    pub(crate) epochs_heard: u64,
    /// What its clients were told of being active.
    pub(crate) active_told: Option<Active>,
    routers_told: bool,
    methods_told: MethodsTold,
}

impl Link {
    /// The group has other routers now.
    pub(crate) fn tell_routers_again(&mut self) {
        self.routers_told = false;
    }

    pub(crate) fn new(peer: GroupPeer) -> Link {
        let holder = Holder::of(peer.ip, peer.identity.as_deref());
        Link {
            peer,
            holder,
            clients: BTreeMap::new(),
            workers: Vec::new(),
            joining: BTreeSet::new(),
            members_told: None,
            clients_told: 0,
            epoch_told: None,
            epochs_heard: 0,
            active_told: None,
            routers_told: false,
            methods_told: MethodsTold::default(),
        }
    }

    /// Whether its workers know the table of methods, if there is one.
    pub(crate) fn knows(&self, methods: Option<&MethodTable>) -> bool {
        methods.is_none_or(|methods| self.methods_told.is_all(methods.versions.told()))
    }

    /// An attempt to join is refused.
    pub(crate) fn on_join_refused(&mut self, id: u64) {
        self.joining.remove(&id);
        self.methods_told.on_join_refused();
    }

    /// The names that its peer has proved.
    pub(crate) fn names(&self) -> &[String] {
        self.peer.identity.as_deref().map_or(&[], |identity| &identity.names)
    }

    /// Tells what is to be told, as far as there is room.
    ///
    /// # Errors
    /// There is no room for more.
    pub(crate) fn tell(
        &mut self,
        tables: &mut Tables<'_>,
        tell: &mut dyn FnMut(Told) -> Result<(), TellError>,
    ) -> Result<(), TellError> {
        let has_workers = !self.workers.is_empty() || !self.joining.is_empty();
        if let Some(methods) = tables.methods.filter(|_| has_workers) {
            // Without it no worker is granted anything, so it is told again if it cannot be now.
            let (table, newest) = (methods.versions.told(), tables.epochs.0);
            forgive(self.methods_told.tell(table, newest, tell))?;
        }
        let mut tell = |told: Told| forgive(tell(told));
        if has_workers {
            self.tell_clients(tables, &mut tell)?;
        }
        if !self.clients.is_empty() {
            if self.active_told != Some(tables.active) {
                tell(Told::Active(tables.active))?;
                self.active_told = Some(tables.active);
            }
            self.tell_members(tables, &mut tell)?;
        }
        let (of_workers, of_clients) = tables.epochs;
        if !self.workers.is_empty() && self.epoch_told != Some(of_workers) {
            let epoch = epoch_of_workers(tables.secrets.as_deref_mut(), of_workers);
            tell(Told::Epoch { client: None, epoch })?;
            self.epoch_told = Some(of_workers);
        }
        for (client, told) in &mut self.clients {
            if *told != of_clients {
                let behind = of_clients.wrapping_sub(*told) % EPOCHS;
                let anew = tables.methods.map(|it| it.versions.binds_anew(tables.begun, behind));
                let secrets = tables.secrets.as_deref_mut();
                let epoch = epoch_of_client(secrets, of_clients, *client);
                let epoch = Epoch { binds_anew: anew.unwrap_or_default(), ..epoch };
                tell(Told::Epoch { client: Some(*client), epoch })?;
                *told = of_clients;
            }
        }
        let has_members = !self.workers.is_empty() || !self.clients.is_empty();
        if has_members && !self.routers_told && !tables.routers.is_empty() {
            tell(Told::Routers(tables.routers.to_vec()))?;
            self.routers_told = true;
        }
        Ok(())
    }

    fn tell_members(
        &mut self,
        tables: &Tables<'_>,
        tell: &mut dyn FnMut(Told) -> Result<(), TellError>,
    ) -> Result<(), TellError> {
        // An empty roster is told as well: the attachment can be used then.
        while self.members_told.is_none_or(|told| told < tables.members.version()) {
            let since = self.members_told.unwrap_or(0);
            let changes = tables.members.since(since).take(BODY_BYTES_MAX / MEMBER_BYTES_MAX);
            let mut told = tables.members.version();
            let mut entries = Vec::new();
            let mut changes = changes.peekable();
            while let Some((version, worker, state)) = changes.next() {
                let state = state.copied().unwrap_or(MemberState::Gone);
                entries.push(MemberChange { worker, state });
                if changes.peek().is_none() && version < told {
                    told = version;
                }
            }
            tell(Told::Members(entries))?;
            self.members_told = Some(told);
        }
        Ok(())
    }

    fn tell_clients(
        &mut self,
        tables: &Tables<'_>,
        tell: &mut dyn FnMut(Told) -> Result<(), TellError>,
    ) -> Result<(), TellError> {
        while self.clients_told < tables.clients.version() {
            let (mut entries, mut bytes) = (Vec::new(), 0);
            let mut told = tables.clients.version();
            for (version, client, names) in tables.clients.since(self.clients_told) {
                let names = names.cloned();
                bytes += entry_bytes(names.as_deref());
                if bytes > BODY_BYTES_MAX && !entries.is_empty() {
                    break;
                }
                entries.push(ClientChange { client, names });
                told = version;
            }
            if entries.is_empty() {
                // What was left of the changes is forgotten.
                self.clients_told = tables.clients.version();
                return Ok(());
            }
            tell(Told::Clients(entries))?;
            self.clients_told = told;
        }
        Ok(())
    }
}

/// What one kind of member cannot be told keeps no other from what it has to know.
fn forgive(said: Result<(), TellError>) -> Result<(), TellError> {
    match said {
        Err(TellError::Backlogged) => Err(TellError::Backlogged),
        Err(error) => {
            tracing::debug!(%error, "a member was not told");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn entry_bytes(names: Option<&[String]>) -> usize {
    let names = names.unwrap_or_default().iter().map(|name| 2 + name.len());
    4 + 1 + 2 + names.sum::<usize>()
}
