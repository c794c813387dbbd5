//! What epochs bring: secrets, and numbers that may be others' (RT28, RT30).

use petasos_base::Time;
use petasos_control::Cipher;
use petasos_endpoint::group_router::PeerLink;

use super::Group;
use crate::epochs::{EpochChange, Readiness};
use crate::plane_thread::PlaneCommand;
use crate::secrets::Secrets;

impl Group {
    /// An epoch begins at the plane, with a secret if the group is sealed.
    pub(super) fn begin_epoch(&mut self, epoch: u16) {
        if let Some(methods) = &mut self.methods {
            methods.versions.begin(self.epochs.begun());
        }
        let secret = self.secrets.as_mut().map(|secrets| secrets.begin(epoch));
        self.command(PlaneCommand::BeginEpoch(epoch, secret));
    }

    /// The AEAD of a sealed group, as members are told.
    pub(super) fn cipher(&self) -> Option<Cipher> {
        self.secrets.as_ref().map(Secrets::cipher)
    }

    /// Numbers may be others' once two epochs have begun since they were in use (RT28).
    pub(super) fn give_numbers_back(&mut self) {
        let begun = self.epochs.begun();
        while let Some((_, client, holder)) =
            self.held_clients.pop_front_if(|(at, ..)| begun >= *at + 2)
        {
            self.client_numbers.give_back(&holder);
            self.command(PlaneCommand::GiveBack { client });
        }
        while let Some((_, number, key, holder)) =
            self.held_workers.pop_front_if(|(at, ..)| begun >= *at + 2)
        {
            if self.is_joining(number) {
                // It is about to be in use again.
                self.held_workers.push_back((begun, number, key, holder));
                continue;
            }
            self.worker_numbers.give_back(&holder);
            self.free_number(number, &key);
        }
    }

    pub(super) fn turn_epochs(&mut self, now: Time) {
        if core::mem::take(&mut self.has_expelled) {
            self.epochs.hasten(now);
        }
        let begun = self.epochs.begun();
        let mut with_workers = self.links.values().filter(|link| !link.workers.is_empty());
        let all_heard = with_workers.all(|link| link.epochs_heard == begun);
        match self.epochs.turn(now, all_heard) {
            Some(EpochChange::Begun(epoch)) => self.begin_epoch(epoch),
            Some(EpochChange::Over) => {
                if let Some(secrets) = &mut self.secrets {
                    secrets.end_before();
                }
                self.command(PlaneCommand::EndEpoch);
            }
            // Clients that hear of the epoch bind anew by what workers know.
            Some(EpochChange::TellClients) => {
                if let Some(methods) = &mut self.methods {
                    methods.commit();
                }
                self.turn_readiness();
            }
            None => {}
        }
        self.give_numbers_back();
    }

    /// The workers of a connection take requests of an epoch.
    pub(super) fn on_epoch_heard(&mut self, link: PeerLink, epoch: u16) {
        let heard = self.epochs.begun_with(epoch);
        let (Some(at), Some(heard)) = (self.links.get_mut(&link), heard) else { return };
        if heard <= at.epochs_heard {
            return;
        }
        at.epochs_heard = heard;
        for number in at.workers.clone() {
            if let Some(worker) = self.workers.get_mut(&number) {
                worker.readiness.heard = heard;
                self.turn_readiness_of(number);
            }
        }
    }

    /// A worker is granted the newest epoch.
    pub(super) fn begin_readiness(&mut self, number: u16, link: PeerLink) {
        let first = self.epochs.begun();
        let heard = self.links[&link].epochs_heard;
        if let Some(worker) = self.workers.get_mut(&number) {
            worker.readiness = Readiness { first, heard, ..Readiness::default() };
        }
    }

    /// Lets the plane give to who takes requests of the epoch that clients were told, and to nobody
    /// else (RT30). What clients have sent before they heard of it, such a worker rejects, and they
    /// send it again.
    fn turn_readiness(&mut self) {
        let numbers: Vec<u16> = self.workers.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.turn_readiness_of(number));
    }

    /// The same for one worker, which may have changed.
    pub(super) fn turn_readiness_of(&mut self, number: u16) {
        let epoch = self.epochs.begun_of_clients();
        let Some(worker) = self.workers.get_mut(&number) else { return };
        let (id, is_ready) = (worker.id, worker.readiness.takes(epoch));
        if core::mem::replace(&mut worker.readiness.is_ready, is_ready) != is_ready {
            self.command(PlaneCommand::HoldBack(id, !is_ready));
        }
    }
}
