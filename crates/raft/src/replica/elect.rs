//! Who leads: timeouts, pre-votes, votes, and when they are withheld (QR6, QR15).

use petasos_base::Rng;

use super::Replica;
use crate::core::Diverged;
use crate::message::Message;
use crate::{MemberId, Membership, Output, Position, Role, Settings};

pub(super) struct Election {
    /// When a replica that has not heard a leader looks for another one.
    pub(super) at_us: u64,
    /// The leader of the term, if it has been heard.
    pub(super) leader: Option<MemberId>,
    /// When a leader was heard, unless its connection has ended since.
    heard_us: Option<u64>,
    /// Until when no vote is given: what a leader that reads by lease relies on.
    promised_us: u64,
    /// The term for which pre-votes are asked, and who has said yes.
    pre_vote: Option<(u64, Vec<MemberId>)>,
    /// Whether the leader has asked to stand (QR7).
    is_handed_over: bool,
}

impl Election {
    /// A replica that starts may have promised something before: it keeps that.
    pub(super) fn new(settings: &Settings, now_us: u64, rng: &mut Rng) -> Election {
        let promised_us = match settings.lease_drift {
            Some(_) => now_us + settings.election_us,
            None => 0,
        };
        Election {
            at_us: now_us + timeout_us(settings, rng),
            leader: None,
            heard_us: None,
            promised_us,
            pre_vote: None,
            is_handed_over: false,
        }
    }
}

/// A timeout at random, between the shortest and twice that.
fn timeout_us(settings: &Settings, rng: &mut Rng) -> u64 {
    settings.election_us + rng.below(settings.election_us)
}

impl Replica {
    pub(super) fn restart_timer(&mut self) {
        self.election.at_us = self.now_us + timeout_us(&self.settings, &mut self.rng);
    }

    /// The leader was heard, and may have been promised a lease by that.
    pub(super) fn heard(&mut self, leader: MemberId, lease: bool) {
        self.election.leader = Some(leader);
        self.election.heard_us = Some(self.now_us);
        self.election.pre_vote = None;
        if lease {
            self.election.promised_us = self.now_us + self.settings.election_us;
        }
        self.restart_timer();
        self.tell_leader();
    }

    /// A connection to a member has ended. If it led, that is its silence (QR6): this replica looks
    /// for another leader soon, but not at the same time as others.
    pub fn disconnected(&mut self, now_us: u64, member: MemberId) {
        self.now_us = now_us;
        self.with_peer(member, crate::peer::Peer::lost);
        if self.election.leader == Some(member) && self.leading.is_none() {
            (self.election.leader, self.election.heard_us) = (None, None);
            let soon_us = now_us + self.rng.below(self.settings.beat_us.max(1));
            self.election.at_us = self.election.at_us.min(soon_us);
            self.tell_leader();
        }
    }

    /// The election timeout has passed: asks whether it would be elected, or stands if it is the
    /// only voter.
    pub(super) fn look_for_a_leader(&mut self) -> Result<(), Diverged> {
        self.restart_timer();
        (self.election.leader, self.election.heard_us) = (None, None);
        self.tell_leader();
        let id = self.settings.id;
        if !is_voter(self.membership(), id) && !self.forget_its_removal() {
            return Ok(());
        }
        self.counters.pre_votes += 1;
        self.election.pre_vote = Some((self.core.term(), vec![id]));
        if self.membership().has_majority(|member| member == id) {
            return self.stand();
        }
        let last = self.core.last();
        self.say_to_all(Message::PreVote { last });
        Ok(())
    }

    /// A voter that was removed by a configuration that may not be committed could be needed by the
    /// others, who do not have that, and do not get its vote while its log is longer than theirs:
    /// so it forgets it (Ongaro's thesis, 4.2.2, has it stand, which the library does not).
    ///
    /// From that configuration on, nobody counts what this replica has: and whoever is elected
    /// without it needs a majority of the new voters as well, who have it if it is committed.
    fn forget_its_removal(&mut self) -> bool {
        let (id, index) = (self.settings.id, self.configurations.latest_index());
        let before = self.configurations.at(index.saturating_sub(1));
        if index <= self.committed() || !before.is_joint() || !is_voter(before, id) {
            return false;
        }
        self.committed_before = self.committed();
        self.core.forget_from(index);
        self.forget_behind(self.core.last().index);
        true
    }

    fn say_to_all(&mut self, message: Message) {
        let barrier = self.durability.barrier();
        let members = self.configurations.latest().members().iter();
        let others = members.map(|member| member.id).filter(|id| *id != self.settings.id);
        self.outbox.extend(others.map(|id| (barrier, id, message)));
    }

    /// A member asks whether it would get this replica's vote.
    pub(super) fn pre_vote_asked(&mut self, from: MemberId, term: u64, last: Position) {
        let granted = term >= self.core.term()
            && last >= self.core.last()
            && !self.hears_a_leader()
            && !self.has_promised();
        self.say(from, Message::PreVoteAnswer { asked: term, granted });
    }

    pub(super) fn pre_vote_answered(
        &mut self,
        from: MemberId,
        term: u64,
        asked: u64,
        granted: bool,
    ) -> Result<(), Diverged> {
        if term > self.core.term() {
            self.core.notice_term(term, from)?;
            return self.settle();
        }
        let Some((of, yes)) = &mut self.election.pre_vote else { return Ok(()) };
        if *of != asked || asked != self.core.term() || !granted || yes.contains(&from) {
            return Ok(());
        }
        yes.push(from);
        let elected = self.configurations.latest().has_majority(|member| yes.contains(&member));
        if elected { self.stand() } else { Ok(()) }
    }

    /// The leader asks this replica to stand (QR7).
    pub(super) fn asked_to_stand(&mut self, from: MemberId, term: u64) -> Result<(), Diverged> {
        if term != self.core.term() || self.election.leader != Some(from) {
            return Ok(());
        }
        self.election.is_handed_over = true;
        let stood = self.stand();
        self.election.is_handed_over = false;
        stood
    }

    fn stand(&mut self) -> Result<(), Diverged> {
        self.counters.elections += 1;
        self.election.pre_vote = None;
        self.core.stand();
        self.settle()
    }

    /// The library stands: others are asked for their votes.
    pub(super) fn ask_for_votes(&mut self) {
        let handing_over = self.election.is_handed_over;
        self.say_to_all(Message::Vote { last: self.core.last(), handing_over });
    }

    /// A member asks for a vote.
    pub(super) fn vote_asked(
        &mut self,
        from: MemberId,
        term: u64,
        last: Position,
        handing_over: bool,
    ) -> Result<(), Diverged> {
        let is_later = term > self.core.term();
        if is_later && (self.has_promised() || (self.hears_a_leader() && !handing_over)) {
            // Its term would end that of a leader that others hear.
            self.counters.votes_withheld += 1;
            return Ok(());
        }
        self.core.vote_asked(from, term, last)?;
        self.settle()
    }

    /// Whether there is a leader that does its work: itself, or one that was heard a moment ago.
    fn hears_a_leader(&self) -> bool {
        let heard = self.election.heard_us;
        let recently = |heard_us| self.now_us < heard_us + self.settings.election_us;
        self.leading.is_some() || heard.is_some_and(recently)
    }

    /// Whether it has promised not to vote (QR15).
    fn has_promised(&self) -> bool {
        self.now_us < self.election.promised_us
    }

    /// The library may have become, or ceased to be, a leader.
    pub(super) fn change_role(&mut self) {
        match (self.core.role(), self.leading.is_some()) {
            (Role::Leader, false) => self.begin_to_lead(),
            (Role::Follower | Role::Candidate, true) => self.cease_to_lead(),
            (Role::Leader, true) => self.match_new_peers(),
            (Role::Follower | Role::Candidate, false) => {}
        }
        if self.said.0 != self.core.term() {
            self.election.leader = None;
        }
        self.tell_leader();
    }

    fn tell_leader(&mut self) {
        let now = (self.core.term(), self.leader());
        if self.said != now {
            self.said = now;
            self.events.push_back(Output::Leader { term: now.0, leader: now.1 });
        }
    }
}

fn is_voter(membership: &Membership, id: MemberId) -> bool {
    let member = membership.get(id);
    member.is_some_and(|member| member.part.is_old_voter() || member.part.is_new_voter())
}
