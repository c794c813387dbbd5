//! A leader that hands over to another voter (QR7).

use super::Replica;
use crate::message::Message;
use crate::{MemberId, NotHandedOver};

/// To whom, and how far it is.
pub(super) struct HandOver {
    to: MemberId,
    /// The leader leads on from then on.
    pub(super) until_us: u64,
    is_asked: bool,
}

impl Replica {
    /// Hands over to another voter: brings it up to date, and has it stand. Until it leads, or for
    /// the shortest election timeout after it could have, no commands are taken.
    ///
    /// # Errors
    /// Why nothing was begun.
    pub fn hand_over(&mut self, now_us: u64, to: MemberId) -> Result<(), NotHandedOver> {
        self.now_us = now_us;
        let member = self.configurations.latest().get(to);
        let is_voter = member.is_some_and(|member| member.part.is_new_voter());
        let leader = self.election.leader;
        let leading = self.leading.as_mut().ok_or(NotHandedOver::NotLeader { leader })?;
        if !is_voter || to == self.settings.id {
            return Err(NotHandedOver::NotAVoter);
        }
        if leading.hand_over.is_some() {
            return Err(NotHandedOver::InProgress);
        }
        let until_us = now_us + self.settings.election_us + self.lease_wait_us();
        let hand_over = HandOver { to, until_us, is_asked: false };
        if let Some(leading) = &mut self.leading {
            leading.hand_over = Some(hand_over);
        }
        self.go_on_handing_over();
        Ok(())
    }

    /// To whom this replica hands over, while it does.
    pub fn handing_over_to(&self) -> Option<MemberId> {
        Some(self.leading.as_ref()?.hand_over.as_ref()?.to)
    }

    /// How long voters still keep what they have promised for the lease, at most.
    fn lease_wait_us(&self) -> u64 {
        let Some(drift) = self.settings.lease_drift else { return 0 };
        let asked_us = self.leading.as_ref().and_then(|leading| leading.lease_asked_us);
        // A slow clock keeps its promise longer, and it began when the question came.
        let promised_us = self.settings.election_us * (1000 + drift) / 1000 + self.settings.beat_us;
        asked_us.map_or(0, |asked_us| (asked_us + promised_us).saturating_sub(self.now_us))
    }

    /// Asks the voter to stand, once it has everything and nobody is bound by a lease.
    pub(super) fn go_on_handing_over(&mut self) {
        let lease_wait_us = self.lease_wait_us();
        let last = self.core.last().index;
        let Some(leading) = &mut self.leading else { return };
        let Some(hand_over) = &mut leading.hand_over else { return };
        let has_all = |peer: &crate::peer::Peer| peer.id == hand_over.to && peer.acked == last;
        if !hand_over.is_asked && lease_wait_us == 0 && leading.peers.iter().any(has_all) {
            hand_over.is_asked = true;
            let to = hand_over.to;
            self.say(to, Message::Stand);
        }
    }

    /// If it takes too long, the leader leads on.
    pub(super) fn give_up_handing_over(&mut self) {
        self.go_on_handing_over();
        let now_us = self.now_us;
        if let Some(leading) = &mut self.leading {
            leading.hand_over.take_if(|hand_over| now_us >= hand_over.until_us);
        }
    }
}
