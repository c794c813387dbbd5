//! Reads that see everything acknowledged (QR14, QR15).

use super::Replica;
use crate::{MemberId, Output};

impl Replica {
    /// A read wants to see all that was acknowledged before. The round that says from which index
    /// on it may be answered: [`Output::Read`] follows, unless this replica ceases to lead
    /// ([`Output::Leader`]). All reads before the next [`poll`](Replica::poll) share a round.
    ///
    /// # Errors
    /// Who leads, if this replica does not.
    pub fn read(&mut self) -> Result<u64, Option<MemberId>> {
        let leading = self.leading.as_mut().ok_or(self.election.leader)?;
        Ok(leading.rounds.want())
    }

    /// The index from which on a read may be answered at once, if this replica leads by lease
    /// (QR15). `now_us` has to be taken after the read has come.
    pub fn read_by_lease(&self, now_us: u64) -> Option<u64> {
        let leading = self.leading.as_ref().filter(|leading| leading.hand_over.is_none())?;
        let until_us = leading.rounds.confirmed_us()? + self.settings.lease_us()?;
        (now_us < until_us && self.knows_commit()).then(|| self.committed())
    }

    /// Begins a round if reads, or the lease, wait for one.
    pub(super) fn begin_round(&mut self) {
        let committed = self.committed();
        let Some(leading) = self.leading.as_mut().filter(|leading| leading.rounds.is_wanted())
        else {
            return;
        };
        // What earlier leaders have acknowledged is committed once the first entry of this term is.
        leading.rounds.begin(self.now_us, committed.max(leading.begin));
        leading.peers.iter_mut().for_each(|peer| peer.is_due = true);
        self.confirm_rounds();
    }

    /// Ends rounds that a majority has answered.
    pub(super) fn confirm_rounds(&mut self) {
        let Some(leading) = &mut self.leading else { return };
        let membership = self.configurations.latest();
        let (id, peers) = (self.settings.id, &leading.peers);
        leading.rounds.confirm(|round| {
            membership.has_majority(|member| {
                let echoed = || peers.iter().any(|peer| peer.id == member && peer.echoed >= round);
                member == id || echoed()
            })
        });
    }

    /// A read that may be answered.
    pub(super) fn poll_read(&mut self) -> Option<Output> {
        let (round, index) = self.leading.as_mut()?.rounds.next_read()?;
        Some(Output::Read { round, index })
    }
}
