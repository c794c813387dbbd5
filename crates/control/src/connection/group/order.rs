//! What a router has said so far, and what it may say next (RT33 to RT36).
//!
//! Both ends keep this account of the messages from the router: one as it sends them, the other as
//! it reads them. So at the same place in the stream they have the same account, whatever travels
//! in the other direction meanwhile, and a router that asks before it sends never breaks an order
//! that its peer checks.

use std::collections::BTreeMap;

use petasos_wire::EPOCHS;

use crate::group::is_older;
use crate::{AttachGrant, Cipher, Epoch, JoinGrant, Leave, Member, Told};

/// The most epochs by which workers may be behind the newest that they were told: far below half
/// of all numbers, so that older and newer are told apart.
const EPOCHS_BEHIND_MAX: u16 = 1024;

/// What is out of place: a field, or a message by its name in the specification.
pub(super) type Misplaced = &'static str;

/// An attachment on this connection.
#[derive(Clone, Copy, Debug)]
struct Attachment {
    tag: u32,
    /// The newest epoch that its client was told.
    epoch: u16,
}

/// The account.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    attachments: BTreeMap<u32, Attachment>,
    /// The tags of memberships.
    memberships: BTreeMap<u16, u32>,
    /// Whether packets are sealed, once a grant has said it.
    is_sealed: Option<bool>,
    /// An attachment was granted, and nothing followed yet.
    awaits_active: bool,
    /// The epoch of a table of which more follows.
    open_table: Option<u16>,
    /// The newest epoch that workers were told.
    told: Option<u16>,
    /// The epoch that they have confirmed last, or the first that they were told.
    heard: Option<u16>,
}

impl Order {
    /// Checks that `is_active`, the next message, is what has to follow an attachment, if anything.
    pub(super) fn next(&mut self, is_active: bool) -> Result<(), Misplaced> {
        let awaits = core::mem::take(&mut self.awaits_active);
        if awaits && !is_active { Err("active") } else { Ok(()) }
    }

    /// An attachment is granted.
    pub(super) fn attach(&mut self, grant: &AttachGrant) -> Result<(), Misplaced> {
        if self.attachments.contains_key(&grant.client) {
            return Err("client");
        }
        self.seal(grant.cipher)?;
        let attachment = Attachment { tag: grant.tag, epoch: grant.epoch.number };
        self.attachments.insert(grant.client, attachment);
        self.awaits_active = true;
        Ok(())
    }

    /// A membership is granted. A worker that joins anew may have the number that it had; its
    /// earlier membership has ended then.
    pub(super) fn join(&mut self, grant: &JoinGrant) -> Result<(), Misplaced> {
        if self.open_table.is_some() {
            return Err("table");
        }
        let number = grant.epoch.number;
        if self.memberships.is_empty() {
            // Whatever workers were told before is long ago.
            (self.told, self.heard) = (None, None);
        }
        if self.told.is_some_and(|told| is_older(number, told)) {
            return Err("epoch");
        }
        self.seal(grant.cipher)?;
        self.memberships.insert(grant.worker, grant.tag);
        self.note_told(number);
        Ok(())
    }

    /// A membership is refused. A table that was begun for it is not continued.
    pub(super) fn refuse_join(&mut self) {
        self.open_table = None;
    }

    /// Something is told, while `joins` attempts to join are unanswered.
    pub(super) fn tell(&mut self, told: &Told, joins: bool) -> Result<(), Misplaced> {
        let (to_clients, to_members) = (!self.attachments.is_empty(), !self.memberships.is_empty());
        let to_workers = to_members || joins;
        match told {
            Told::Table(table) if to_workers => {
                self.tell_table(table.epoch, table.is_last)?;
            }
            Told::Clients(_) if to_workers => {}
            Told::Members(_) | Told::Active(_) if to_clients => {}
            Told::Routers(_) if to_clients || to_members => {}
            Told::Epoch { client: Some(client), epoch } => self.tell_client(*client, epoch)?,
            Told::Epoch { client: None, epoch } if to_members => self.tell_workers(epoch)?,
            Told::Table(_) => return Err("table"),
            Told::Clients(_) => return Err("clients"),
            Told::Members(_) => return Err("members"),
            Told::Active(_) => return Err("active"),
            Told::Routers(_) => return Err("routers"),
            Told::Epoch { .. } => return Err("epoch"),
        }
        Ok(())
    }

    /// Whether workers have confirmed too little to be told `number` as well.
    pub(super) fn is_far_ahead(&self, number: u16) -> bool {
        let (Some(told), Some(heard)) = (self.told, self.heard) else { return false };
        !is_older(number, told) && ahead(told, heard) + ahead(number, told) > EPOCHS_BEHIND_MAX
    }

    /// Workers confirm an epoch. Returns false if that says nothing: it is not between the epoch
    /// that they have confirmed last and the newest that they were told. A router cannot object to
    /// that, since a confirmation may cross a new membership.
    pub(super) fn hear(&mut self, number: u16) -> Result<bool, Misplaced> {
        let (Some(told), Some(heard)) = (self.told, self.heard) else {
            return Err("epoch heard");
        };
        let counts = ahead(number, heard) <= ahead(told, heard);
        if counts {
            self.heard = Some(number);
        }
        Ok(counts)
    }

    /// Whether the member is there, by this tag.
    pub(super) fn holds(&self, leave: &Leave) -> bool {
        let tag = match leave.member {
            Member::Client(client) => self.attachments.get(&client).map(|it| it.tag),
            Member::Worker(worker) => self.memberships.get(&worker).copied(),
        };
        tag == Some(leave.tag)
    }

    /// Whether the client is attached on this connection.
    pub(super) fn is_attached(&self, client: u32) -> bool {
        self.attachments.contains_key(&client)
    }

    /// The member is gone from here on in the stream. Returns false if it was not there.
    pub(super) fn leave(&mut self, leave: &Leave) -> bool {
        let holds = self.holds(leave);
        if holds {
            match leave.member {
                Member::Client(client) => drop(self.attachments.remove(&client)),
                Member::Worker(worker) => drop(self.memberships.remove(&worker)),
            }
        }
        holds
    }

    fn tell_table(&mut self, epoch: u16, is_last: bool) -> Result<(), Misplaced> {
        let continues = self.open_table.is_none_or(|open| open == epoch);
        if !continues || self.told.is_some_and(|told| is_older(epoch, told)) {
            return Err("table");
        }
        self.open_table = (!is_last).then_some(epoch);
        Ok(())
    }

    fn tell_client(&mut self, client: u32, epoch: &Epoch) -> Result<(), Misplaced> {
        let is_sealed = self.is_sealed;
        let attachment = self.attachments.get_mut(&client).ok_or("client")?;
        check_next(attachment.epoch, epoch, is_sealed)?;
        attachment.epoch = epoch.number;
        Ok(())
    }

    fn tell_workers(&mut self, epoch: &Epoch) -> Result<(), Misplaced> {
        if self.open_table.is_some() {
            return Err("table");
        }
        check_next(self.told.ok_or("epoch")?, epoch, self.is_sealed)?;
        self.note_told(epoch.number);
        Ok(())
    }

    fn note_told(&mut self, number: u16) {
        self.told = Some(number);
        self.heard = self.heard.or(self.told);
    }

    /// All grants of a connection are sealed, or none is.
    fn seal(&mut self, cipher: Option<Cipher>) -> Result<(), Misplaced> {
        if *self.is_sealed.get_or_insert(cipher.is_some()) != cipher.is_some() {
            return Err("cipher");
        }
        Ok(())
    }
}

/// How far a number is ahead of an earlier one.
fn ahead(number: u16, of: u16) -> u16 {
    number.wrapping_sub(of) % EPOCHS
}

/// Checks that `epoch` is newer than the one before, and has a secret if that had one.
fn check_next(before: u16, epoch: &Epoch, is_sealed: Option<bool>) -> Result<(), Misplaced> {
    if !is_older(before, epoch.number) {
        return Err("epoch");
    }
    if Some(epoch.secret.is_some()) != is_sealed {
        return Err("secret");
    }
    Ok(())
}
