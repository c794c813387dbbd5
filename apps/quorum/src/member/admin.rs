//! What operators ask for: changes of members, handing over, snapshots (QR7, QR8).

use petasos_raft::{Change, MemberId, NotChanged, NotHandedOver};

use super::Member;
use crate::contact::Contact;
use crate::log::Log;
use crate::machine::StateMachine;
use crate::reply::{Reply, Status};
use petasos_base::ByteReader;

/// A request of an operator's, or of a member that joins: kind (1), forced (1), zero (6), member
/// (8), and a new member's contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// A new learner. Its number is the reply's.
    Add(Contact),
    /// A learner becomes a voter.
    Promote(MemberId),
    /// A member goes. `forced`: also if those that remain are not heard.
    Remove {
        /// Which.
        member: MemberId,
        /// Whether it does not matter who is heard.
        forced: bool,
    },
    /// The leader hands over to a voter.
    HandOver(MemberId),
    /// The member that is asked takes a snapshot.
    Snapshot,
}

impl Admin {
    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, forced, member, contact) = match self {
            Admin::Add(contact) => (1, false, MemberId(0), contact.encode()),
            Admin::Promote(member) => (2, false, *member, Vec::new()),
            Admin::Remove { member, forced } => (3, *forced, *member, Vec::new()),
            Admin::HandOver(member) => (4, false, *member, Vec::new()),
            Admin::Snapshot => (5, false, MemberId(0), Vec::new()),
        };
        let mut bytes = vec![kind, u8::from(forced), 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&member.0.to_le_bytes());
        bytes.extend_from_slice(&contact);
        bytes
    }

    /// Reads it, from bytes that nobody vouches for.
    pub fn decode(bytes: &[u8]) -> Option<Admin> {
        let mut bytes = ByteReader::new(bytes);
        let (kind, forced) = (bytes.u8()?, bytes.u8()?);
        (bytes.take(6)? == [0; 6] && forced <= 1).then_some(())?;
        let (forced, member) = (forced == 1, MemberId(bytes.u64()?));
        let contact = bytes.rest();
        if kind == 1 {
            let contact = Contact::decode(contact)?;
            return (!forced && member.0 == 0).then_some(Admin::Add(contact));
        }
        let admin = match kind {
            2 if !forced => Admin::Promote(member),
            3 => Admin::Remove { member, forced },
            4 if !forced => Admin::HandOver(member),
            5 if !forced && member.0 == 0 => Admin::Snapshot,
            _ => return None,
        };
        contact.is_empty().then_some(admin)
    }
}

/// An operator's call that waits.
pub(super) struct Waiting<C> {
    call: C,
    until: Until,
    /// What the reply says.
    number: u64,
}

enum Until {
    /// This entry is applied, and voters are not changing.
    Changed(u64),
    /// The member leads.
    HandedOver(MemberId),
    /// A snapshot is durable that has this entry.
    Saved(u64),
}

impl<M: StateMachine + Send + 'static, L: Log, C> Member<M, L, C> {
    /// An operator's request.
    pub fn admin(&mut self, now_us: u64, call: C, bytes: &[u8]) {
        self.now_us = now_us;
        match Admin::decode(bytes) {
            None => self.answer(call, &Reply::of(Status::Malformed)),
            Some(Admin::Snapshot) => {
                let number = self.state.applied();
                self.snapshots.want();
                self.waiting.push(Waiting { call, until: Until::Saved(number), number });
            }
            Some(Admin::HandOver(to)) => self.begin_to_hand_over(call, to),
            Some(Admin::Add(contact)) => self.add(call, &contact),
            Some(Admin::Promote(member)) => {
                self.change(call, Change::Promote(member), false, member.0);
            }
            Some(Admin::Remove { member, forced }) => {
                self.change(call, Change::Remove(member), forced, member.0);
            }
        }
    }

    /// A member that has asked before, and did not hear the answer, gets it.
    fn add(&mut self, call: C, contact: &Contact) {
        let context = contact.encode();
        let members = self.membership().members();
        let known = members.iter().find(|member| member.context == context).map(|member| member.id);
        match known.filter(|_| self.leads_since_us.is_some()) {
            Some(member) => {
                let until = Until::Changed(self.replica.membership_index());
                self.waiting.push(Waiting { call, until, number: member.0 });
            }
            None => {
                let number = self.membership().next_id().0;
                self.change(call, Change::Add { context }, false, number);
            }
        }
    }

    fn change(&mut self, call: C, change: Change, forced: bool, number: u64) {
        match self.replica.change(self.now_us, change, forced) {
            Ok(position) => {
                let until = Until::Changed(position.index);
                self.waiting.push(Waiting { call, until, number });
            }
            Err(NotChanged::NotLeader { .. }) => self.answer_not_leader(call),
            Err(NotChanged::InProgress | NotChanged::HandingOver | NotChanged::Behind) => {
                self.answer(call, &Reply::of(Status::Busy));
            }
            Err(refused) => self.refuse(call, &refused),
        }
    }

    fn refuse(&mut self, call: C, why: &impl ToString) {
        let why = why.to_string();
        let reply = Reply { bytes: why.as_bytes(), ..Reply::of(Status::Refused) };
        self.answer(call, &reply);
    }

    fn begin_to_hand_over(&mut self, call: C, to: MemberId) {
        // What is in this turn's batch was not refused yet.
        self.propose_batch();
        match self.replica.hand_over(self.now_us, to) {
            Ok(()) => {
                let until = Until::HandedOver(to);
                self.waiting.push(Waiting { call, until, number: to.0 });
            }
            Err(NotHandedOver::NotLeader { .. }) => self.answer_not_leader(call),
            Err(NotHandedOver::InProgress) => self.answer(call, &Reply::of(Status::Busy)),
            Err(refused) => self.refuse(call, &refused),
        }
    }

    /// Answers operators whose wishes are fulfilled, or will not be.
    pub(super) fn answer_operators(&mut self) {
        let is_settled = !self.membership().is_joint()
            && self.replica.membership_index() <= self.state.applied();
        let applied = self.state.applied();
        let (leader, handing_over) = (self.replica.leader(), self.replica.handing_over_to());
        let saved = self.snapshots.saved();
        let leads = self.leads_since_us.is_some();
        let waiting = std::mem::take(&mut self.waiting);
        for waiter in waiting {
            let status = match waiter.until {
                Until::Changed(index) if is_settled && index <= applied => Some(Status::Done),
                Until::Changed(_) if !leads => Some(Status::Unknown),
                Until::HandedOver(to) if leader == Some(to) => Some(Status::Done),
                Until::HandedOver(to) if leads && handing_over != Some(to) => Some(Status::Busy),
                // Another one leads than was meant.
                Until::HandedOver(_) if !leads && leader.is_some() => Some(Status::Unknown),
                Until::Saved(index) if saved.is_some_and(|saved| saved >= index) => {
                    Some(Status::Done)
                }
                _ => None,
            };
            match status {
                Some(status) => {
                    self.answer(waiter.call, &Reply { number: waiter.number, ..Reply::of(status) });
                }
                None => self.waiting.push(waiter),
            }
        }
    }
}
