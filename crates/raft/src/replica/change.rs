//! Changes of members, snapshots, and entries that the journal gives back (QR8, QR21).

use super::Replica;
use crate::core::Diverged;
use crate::membership::{CONTEXT_BYTES_MAX, MEMBERS_MAX, Part, VOTERS_MAX};
use crate::{Change, Kind, MemberId, Membership, NotChanged, Position};

impl Replica {
    /// Proposes a change of members: the place of its entry. Only one is under way at a time, and a
    /// change of voters takes a second entry, which comes by itself (joint consensus). With
    /// `is_forced` it does not matter whether those that remain are heard.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub fn change(
        &mut self,
        now_us: u64,
        change: Change,
        is_forced: bool,
    ) -> Result<Position, NotChanged> {
        self.now_us = now_us;
        let membership = self.changed(change)?;
        if !is_forced && !membership.settled().has_majority(|member| self.hears(member)) {
            // Who has not led for long may not have heard all who are there.
            let since_us = self.leading.as_ref().map_or(0, |leading| leading.since_us);
            let is_new = now_us < since_us + self.settings.election_us;
            return Err(if is_new { NotChanged::InProgress } else { NotChanged::NoMajority });
        }
        let proposed = self.core.propose_configuration(&membership);
        proposed.expect("this replica leads, and no change is under way");
        let mut data = Vec::new();
        membership.encode(&mut data);
        self.keep(Kind::Configuration, &data);
        self.settle().expect("a leader only appends");
        Ok(self.core.last())
    }

    /// What the configuration would be.
    fn changed(&self, change: Change) -> Result<Membership, NotChanged> {
        let leader = self.election.leader;
        let leading = self.leading.as_ref().ok_or(NotChanged::NotLeader { leader })?;
        let now = self.configurations.latest();
        let is_settled = self.configurations.latest_index() <= self.committed();
        if !is_settled || now.is_joint() || !self.knows_commit() {
            return Err(NotChanged::InProgress);
        }
        if leading.hand_over.is_some() {
            return Err(NotChanged::HandingOver);
        }
        match change {
            Change::Add { context } => {
                let fits = now.members().len() < MEMBERS_MAX && context.len() <= CONTEXT_BYTES_MAX;
                fits.then(|| now.with_learner(context)).ok_or(NotChanged::Limit)
            }
            Change::Promote(id) => {
                let member = now.get(id).ok_or(NotChanged::Unknown)?;
                if member.part != Part::Learner {
                    return Err(NotChanged::IsVoter);
                }
                if now.voters() >= VOTERS_MAX {
                    return Err(NotChanged::Limit);
                }
                let acked = leading.peer(id).map_or(0, |peer| peer.acked);
                let caught_up = acked >= leading.beat_last;
                caught_up.then(|| now.with_part(id, Part::Incoming)).ok_or(NotChanged::Behind)
            }
            Change::Remove(id) => {
                let member = now.get(id).ok_or(NotChanged::Unknown)?;
                match member.part {
                    Part::Learner => Ok(now.without(id)),
                    _ if now.voters() > 1 => Ok(now.with_part(id, Part::Outgoing)),
                    _ => Err(NotChanged::Limit),
                }
            }
        }
    }

    /// Whether a member has been heard within the shortest election timeout.
    fn hears(&self, id: MemberId) -> bool {
        let peer = self.leading.as_ref().and_then(|leading| leading.peer(id));
        let heard_us = peer.and_then(|peer| peer.heard_us);
        let since_us = self.now_us.saturating_sub(self.settings.election_us);
        id == self.settings.id || heard_us.is_some_and(|heard_us| heard_us >= since_us)
    }

    /// The caller has a durable snapshot of what was applied up to `index`, and the log may forget
    /// what it has up to there: followers that lack it need the snapshot. Whether it was so.
    pub fn compact(&mut self, index: u64) -> bool {
        let Some(position) = self.core.position(index).filter(|_| index <= self.committed()) else {
            return false;
        };
        let membership = self.configurations.at(index);
        let done = self.core.snapshot(position, membership);
        if done {
            self.configurations.compact(index);
            self.tail.release(index + 1);
        }
        done
    }

    /// A snapshot from the leader is durable here, and takes the place of everything up to
    /// `position`. Whether it was newer than what is here: if not, nothing has changed.
    ///
    /// The caller's state is the snapshot's from now on, if this says so.
    ///
    /// # Errors
    /// See [`Replica::receive`].
    pub fn snapshot_installed(
        &mut self,
        now_us: u64,
        position: Position,
        membership: Membership,
    ) -> Result<bool, Diverged> {
        self.now_us = now_us;
        if self.leading.is_some() || position.index <= self.committed() {
            return Ok(false);
        }
        if !self.core.snapshot(position, &membership) {
            return Ok(false);
        }
        let next = position.index + 1;
        if self.core.last() == position {
            self.tail.reset(next);
            self.configurations =
                crate::configurations::Configurations::new(position.index, membership);
            self.writes.reset(next, &mut self.durability);
        } else {
            // The log has the snapshot's last entry, and goes on behind it.
            self.tail.release(next);
            self.configurations.compact(position.index);
            self.durability.snapshot(position.index);
        }
        self.settle()?;
        Ok(true)
    }
}
