//! What routers tell the endpoints of this process (RT36).
//!
//! Threat model: see `enrolments`. Of what is told, only what there is room for is kept, and what
//! is gone is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_control::{
    Active, ClientChange, DataAddress, Epoch, Leave, Member, MemberChange, MemberState, Told,
};
use petasos_tls::Identity;

use super::Control;
use crate::enrolment::News;
use crate::group::MEMBERS_MAX;
use crate::method_table::ToldTable;
use crate::sessions::PeerId;

/// The most clients of which one router's connection keeps the names, and the most bytes of these.
/// More are not believed: their requests are refused.
const CLIENTS_MAX: usize = 16 * 1024;
const NAMES_BYTES_MAX: usize = 8 << 20;

/// What a connection to a router has told, so that later attachments know it as well.
#[derive(Default)]
pub(super) struct RouterTold {
    pub(super) members: BTreeMap<u16, DataAddress>,
    pub(super) has_roster: bool,
    pub(super) clients: BTreeMap<u32, Option<Arc<Identity>>>,
    /// Of all of these.
    names_bytes: usize,
    pub(super) table: ToldTable,
    pub(super) routers: Option<Vec<SocketAddr>>,
    pub(super) is_draining: bool,
    /// Requests that are sent and not answered.
    pub(super) asked: usize,
    /// The newest epoch that workers were told.
    pub(super) newest: Option<u16>,
    /// The epoch that all of them take and that is to be confirmed.
    pub(super) confirm: Option<u16>,
    /// Leaves that wait to be sent.
    pub(super) leaves: VecDeque<Leave>,
}

impl Control {
    pub(super) fn on_told(&mut self, number: PeerId, told: Told) {
        match told {
            Told::Members(changes) => self.on_members(number, &changes),
            Told::Clients(changes) => self.on_clients(number, changes),
            Told::Epoch { client: Some(client), epoch } => {
                self.write_to(
                    number,
                    |member| member == Member::Client(client),
                    |news| news.epoch = Some(epoch.clone()),
                );
            }
            Told::Epoch { client: None, epoch } => {
                self.on_epoch_of_workers(number, epoch);
            }
            Told::Active(active) => self.on_active(number, active),
            Told::Routers(routers) => {
                self.write_to(number, |_| true, |news| news.routers = Some(routers.clone()));
                self.enrolments.links.entry(number).or_default().routers = Some(routers);
            }
            Told::Table(part) => {
                let told = self.enrolments.links.entry(number).or_default();
                if let Some(table) = told.table.hear(part) {
                    self.write_to(number, is_worker, |news| news.table = Some(table.clone()));
                }
            }
        }
    }

    /// An epoch, also one that a membership was granted with, is told to all workers of the
    /// connection.
    pub(super) fn on_epoch_of_workers(&mut self, number: PeerId, epoch: Epoch) {
        let told = self.enrolments.links.entry(number).or_default();
        if told.newest.replace(epoch.number) != Some(epoch.number) {
            self.write_to(number, is_worker, |news| news.epoch = Some(epoch.clone()));
        }
    }

    fn on_active(&mut self, number: PeerId, active: Active) {
        self.write_to(number, is_client, |news| news.active = Some(active));
    }

    fn on_members(&mut self, number: PeerId, changes: &[MemberChange]) {
        let told = self.enrolments.links.entry(number).or_default();
        told.has_roster = true;
        let mut heard = Vec::with_capacity(changes.len());
        for MemberChange { worker, state } in changes {
            let known = &mut told.members;
            match state {
                MemberState::There(at) | MemberState::Draining(at) => {
                    if known.len() >= MEMBERS_MAX && !known.contains_key(worker) {
                        tracing::debug!(worker, "a router tells of more workers than can be known");
                        continue;
                    }
                    known.insert(*worker, *at);
                    heard.push((*worker, Some(*at)));
                }
                MemberState::Gone => {
                    let was_known = known.remove(worker).is_some();
                    heard.extend(was_known.then_some((*worker, None)));
                }
            }
        }
        self.write_to(number, is_client, |news| {
            news.has_roster = true;
            news.members.extend(heard.iter().copied());
        });
    }

    fn on_clients(&mut self, number: PeerId, changes: Vec<ClientChange>) {
        let told = self.enrolments.links.entry(number).or_default();
        let known = &mut told.clients;
        let mut heard = Vec::with_capacity(changes.len());
        for ClientChange { client, names } in changes {
            let Some(names) = names else {
                if let Some(before) = known.remove(&client) {
                    told.names_bytes -= before.map_or(0, |identity| bytes_of(&identity.names));
                    heard.push((client, None));
                }
                continue;
            };
            let bytes = bytes_of(&names);
            let is_one_more = known.len() >= CLIENTS_MAX && !known.contains_key(&client);
            if is_one_more || told.names_bytes + bytes > NAMES_BYTES_MAX {
                tracing::debug!(client, "a router tells of more clients than can be known");
                continue;
            }
            told.names_bytes += bytes;
            // The names are the router's word: nobody here has seen a certificate (RT29).
            let identity =
                (!names.is_empty()).then(|| Arc::new(Identity { names, certificate: Vec::new() }));
            if let Some(Some(before)) = known.insert(client, identity.clone()) {
                told.names_bytes -= bytes_of(&before.names);
            }
            heard.push((client, Some(identity)));
        }
        self.write_to(number, is_worker, |news| news.clients.extend(heard.iter().cloned()));
    }

    /// The peer of a connection drains: who is attached there goes elsewhere.
    pub(super) fn on_router_draining(&mut self, number: PeerId) {
        if self.links[&number].server.is_some() {
            self.enrolments.links.entry(number).or_default().is_draining = true;
            self.write_to(number, |_| true, |news| news.is_draining = true);
        }
    }

    /// Leaves news for those of a connection that it concerns. An endpoint that is gone leaves.
    pub(super) fn write_to(
        &mut self,
        number: PeerId,
        concerns: impl Fn(Member) -> bool,
        write: impl Fn(&mut News),
    ) {
        let mut gone = Vec::new();
        for (id, standing) in self.enrolments.on(number) {
            if concerns(standing.leave.member) && !standing.enrolment.leave(&write) {
                gone.push(id);
            }
        }
        gone.into_iter().for_each(|id| self.withdraw(id));
    }
}

/// What names take. A list has an entry of its own for each.
fn bytes_of(names: &[String]) -> usize {
    names.iter().map(|name| size_of::<String>() + name.len()).sum()
}

fn is_client(member: Member) -> bool {
    matches!(member, Member::Client(_))
}

pub(super) fn is_worker(member: Member) -> bool {
    matches!(member, Member::Worker(_))
}
