//! The algorithm: the one module that names the library's types (ADR 52).
//!
//! The library knows terms and places only. It is told messages and timeouts, and says what follows
//! as effects. Its effects are taken after each call: it would merge those of several.

use std::collections::BTreeSet;

use noraft::{
    Action, ClusterConfig, Log, LogEntries, LogEntry, LogIndex, LogPosition, Message, Node, NodeId,
    Term,
};
use thiserror::Error;

use crate::entry::Meaning;
use crate::membership::Part;
use crate::{MemberId, Membership, Position, Role};

/// What follows from a call.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Term and vote have to be written.
    SaveHardState,
    /// A leader was heard, a vote was given, or a role has changed: the election timeout begins
    /// again.
    RestartTimer,
    /// The log has changed behind `previous`, and ends with `last` now.
    Appended { previous: Position, last: Position },
    /// Ask all for their votes.
    AskForVotes,
    /// An answer to a question for a vote.
    Vote { to: MemberId, granted: bool },
    /// An answer to a leader.
    Acknowledge { to: MemberId },
    /// A follower, or all, have something to get: the leader knows by itself what.
    Send,
}

/// The log contradicts what a snapshot or the group has: its files are not what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the log contradicts what the group has committed: this member has to join anew")]
pub struct Diverged;

pub(crate) struct Core {
    node: Node,
}

/// The log as a replica finds it when it starts: built entry by entry.
pub(crate) struct LogBuilder {
    configuration: ClusterConfig,
    entries: LogEntries,
}

impl LogBuilder {
    pub(crate) fn new(snapshot: Position, membership: &Membership) -> LogBuilder {
        let entries = LogEntries::new(to_position(snapshot));
        LogBuilder { configuration: to_configuration(membership), entries }
    }

    pub(crate) fn push(&mut self, meaning: &Meaning) {
        self.entries.push(to_entry(meaning));
    }

    pub(crate) fn last(&self) -> Position {
        from_position(self.entries.last_position())
    }
}

impl Core {
    pub(crate) fn new(id: MemberId, term: u64, vote: Option<MemberId>, log: LogBuilder) -> Core {
        let log = Log::new(log.configuration, log.entries);
        let vote = vote.map(to_node);
        Core { node: restarted(to_node(id), Term::new(term), vote, log) }
    }

    pub(crate) fn role(&self) -> Role {
        match self.node.role() {
            noraft::Role::Follower => Role::Follower,
            noraft::Role::Candidate => Role::Candidate,
            noraft::Role::Leader => Role::Leader,
        }
    }

    pub(crate) fn term(&self) -> u64 {
        self.node.current_term().get()
    }

    pub(crate) fn vote(&self) -> Option<MemberId> {
        self.node.voted_for().map(from_node)
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Position {
        from_position(self.node.log().last_position())
    }

    /// The position before the first entry that the log has.
    pub(crate) fn begin(&self) -> Position {
        from_position(self.node.log().snapshot_position())
    }

    /// The last committed entry, if this replica's own is counted at once.
    pub(crate) fn commit(&self) -> u64 {
        self.node.commit_index().get()
    }

    /// The position at `index`, if the log has it.
    pub(crate) fn position(&self, index: u64) -> Option<Position> {
        let term = self.node.log().entries().get_term(LogIndex::new(index))?;
        Some(Position { term: term.get(), index })
    }

    /// The last entry, up to `index`, whose term is `term` or an earlier one. [`None`] if the log
    /// begins behind it.
    pub(crate) fn last_of_term(&self, term: u64, index: u64) -> Option<u64> {
        let (mut low, mut high) = (self.begin().index, index.min(self.last().index));
        let is_early = |index| self.position(index).is_some_and(|at| at.term <= term);
        if high < low || !is_early(low) {
            return None;
        }
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if is_early(middle) { low = middle } else { high = middle - 1 }
        }
        Some(low)
    }

    /// What the entry at `index` is to the algorithm. A configuration is without its contexts.
    pub(crate) fn is_configuration(&self, index: u64) -> bool {
        let entry = self.node.log().entries().get_entry(LogIndex::new(index));
        matches!(entry, Some(LogEntry::ClusterConfig(_)))
    }

    /// The term that the entry at `index` begins, if it does.
    pub(crate) fn begun_term(&self, index: u64) -> Option<u64> {
        match self.node.log().entries().get_entry(LogIndex::new(index))? {
            LogEntry::Term(term) => Some(term.get()),
            LogEntry::ClusterConfig(_) | LogEntry::Command => None,
        }
    }

    /// Appends a command's entry, as a leader.
    pub(crate) fn propose(&mut self) -> Option<u64> {
        let position = self.node.propose_command();
        (!position.is_invalid()).then_some(position.index.get())
    }

    /// Appends a configuration, as a leader.
    pub(crate) fn propose_configuration(&mut self, membership: &Membership) -> Option<u64> {
        let position = self.node.propose_config(to_configuration(membership));
        (!position.is_invalid()).then_some(position.index.get())
    }

    /// Stands for election.
    pub(crate) fn stand(&mut self) {
        if !self.node.role().is_leader() {
            self.node.handle_election_timeout();
        }
    }

    /// Takes notice of a later term, and so ceases to lead.
    pub(crate) fn notice_term(&mut self, term: u64, from: MemberId) -> Result<(), Diverged> {
        self.hear(&Message::RequestVoteReply {
            from: to_node(from),
            term: Term::new(term),
            vote_granted: false,
        })
    }

    pub(crate) fn vote_asked(
        &mut self,
        from: MemberId,
        term: u64,
        last: Position,
    ) -> Result<(), Diverged> {
        let (from, last_position) = (to_node(from), to_position(last));
        self.hear(&Message::RequestVoteCall { from, term: Term::new(term), last_position })
    }

    pub(crate) fn vote_answered(
        &mut self,
        from: MemberId,
        term: u64,
        granted: bool,
    ) -> Result<(), Diverged> {
        let (from, term) = (to_node(from), Term::new(term));
        self.hear(&Message::RequestVoteReply { from, term, vote_granted: granted })
    }

    pub(crate) fn append(
        &mut self,
        from: MemberId,
        term: u64,
        commit: u64,
        previous: Position,
        entries: impl Iterator<Item = Meaning>,
    ) -> Result<(), Diverged> {
        let entries = entries.map(|meaning| to_entry(&meaning));
        self.hear(&Message::AppendEntriesCall {
            from: to_node(from),
            term: Term::new(term),
            commit_index: LogIndex::new(commit),
            entries: LogEntries::from_iter(to_position(previous), entries),
        })
    }

    pub(crate) fn acknowledged(
        &mut self,
        from: MemberId,
        term: u64,
        last: Position,
    ) -> Result<(), Diverged> {
        let (from, last_position) = (to_node(from), to_position(last));
        self.hear(&Message::AppendEntriesReply { from, term: Term::new(term), last_position })
    }

    /// Forgets entries from `index` on, which nobody counts on.
    pub(crate) fn forget_from(&mut self, index: u64) {
        let log = self.node.log();
        let mut entries = log.entries().clone();
        let keep = index.saturating_sub(log.snapshot_position().index.get() + 1);
        entries.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
        let log = Log::new(log.snapshot_config().clone(), entries);
        let (id, term, vote) = (self.node.id(), self.node.current_term(), self.node.voted_for());
        self.node = restarted(id, term, vote, log);
    }

    /// The log before `position`, and it, are in a snapshot. Whether that could be.
    pub(crate) fn snapshot(&mut self, position: Position, membership: &Membership) -> bool {
        let configuration = to_configuration(membership);
        self.node.handle_snapshot_installed(to_position(position), configuration)
    }

    fn hear(&mut self, message: &Message) -> Result<(), Diverged> {
        self.node.handle_message(message).map_err(|_| Diverged)
    }

    /// Takes what follows from the last call.
    pub(crate) fn effects(&mut self, effects: &mut Vec<Effect>) {
        let actions = self.node.actions_mut();
        if actions.save_current_term || actions.save_voted_for {
            (actions.save_current_term, actions.save_voted_for) = (false, false);
            effects.push(Effect::SaveHardState);
        }
        effects.extend(actions.map(effect));
    }
}

fn restarted(id: NodeId, term: Term, vote: Option<NodeId>, log: Log) -> Node {
    let mut node = Node::restart(id, term, vote, log);
    // Starting sets a timeout, which the caller has anyway.
    node.actions_mut().for_each(drop);
    node
}

fn effect(action: Action) -> Effect {
    match action {
        Action::SetElectionTimeout => Effect::RestartTimer,
        Action::SaveCurrentTerm | Action::SaveVotedFor => Effect::SaveHardState,
        Action::AppendLogEntries(entries) => Effect::Appended {
            previous: from_position(entries.prev_position()),
            last: from_position(entries.last_position()),
        },
        Action::BroadcastMessage(Message::RequestVoteCall { .. }) => Effect::AskForVotes,
        Action::SendMessage(to, Message::RequestVoteReply { vote_granted, .. }) => {
            Effect::Vote { to: from_node(to), granted: vote_granted }
        }
        Action::SendMessage(to, Message::AppendEntriesReply { .. }) => {
            Effect::Acknowledge { to: from_node(to) }
        }
        Action::BroadcastMessage(_) | Action::SendMessage(..) | Action::InstallSnapshot(_) => {
            Effect::Send
        }
    }
}

fn to_node(id: MemberId) -> NodeId {
    NodeId::new(id.0)
}

fn from_node(id: NodeId) -> MemberId {
    MemberId(id.get())
}

fn to_position(Position { term, index }: Position) -> LogPosition {
    LogPosition::new(Term::new(term), LogIndex::new(index))
}

fn from_position(LogPosition { term, index }: LogPosition) -> Position {
    Position { term: term.get(), index: index.get() }
}

fn to_entry(meaning: &Meaning) -> LogEntry {
    match meaning {
        Meaning::Command => LogEntry::Command,
        Meaning::Term(term) => LogEntry::Term(Term::new(*term)),
        Meaning::Configuration(membership) => LogEntry::ClusterConfig(to_configuration(membership)),
    }
}

fn to_configuration(membership: &Membership) -> ClusterConfig {
    let of = |is_in: &dyn Fn(Part) -> bool| {
        let members = membership.members().iter().filter(|member| is_in(member.part));
        members.map(|member| to_node(member.id)).collect::<BTreeSet<_>>()
    };
    ClusterConfig {
        voters: of(&Part::is_old_voter),
        new_voters: if membership.is_joint() { of(&Part::is_new_voter) } else { BTreeSet::new() },
        non_voters: of(&|part| part == Part::Learner),
    }
}
