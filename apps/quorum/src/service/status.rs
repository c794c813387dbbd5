//! What a member says of itself to operators, as JSON.

use petasos_endpoint::RequestHandle;
use petasos_raft::{Part, Role};
use serde::{Deserialize, Serialize};

use crate::contact::Contact;
use crate::log::Log;
use crate::machine::StateMachine;
use crate::member::Member;

/// What a group keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MachineKind {
    /// A table of keys and values ([`Table`](crate::table::Table)).
    #[default]
    Table,
    /// A store with etcd's model ([`Etcd`](crate::etcd::Etcd)).
    Etcd,
}

/// What all members of a group have to agree on, as it was said when the group was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charter {
    /// What it keeps. Groups that were made before there was a choice keep a table.
    #[serde(default)]
    pub machine: MachineKind,
    /// What the machine may hold, in bytes as it counts them: it is full for all at once.
    pub bytes_max: u64,
    /// Whether reads are answered by lease, and by how many thousandths clocks may run apart for
    /// that (QR15).
    pub lease_drift: Option<u64>,
}

/// A member's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemberStatus {
    /// The group, 32 hexadecimal digits.
    pub group: String,
    /// What its members agree on.
    pub charter: Charter,
    /// Its number.
    pub member: u64,
    /// `leader`, `follower` or `candidate`.
    pub role: String,
    /// Its term.
    pub term: u64,
    /// Who leads, if it knows.
    pub leader: Option<u64>,
    /// The last entry of its log.
    pub last: u64,
    /// The last one that is committed, as far as it knows.
    pub committed: u64,
    /// The last one that is durable here.
    pub durable: u64,
    /// The last one whose commands it has applied.
    pub applied: u64,
    /// The replicated clock, in milliseconds.
    pub time_ms: u64,
    /// Clients' sessions.
    pub sessions: u64,
    /// Whether its disk has no space for more commands.
    pub is_full: bool,
    /// All members.
    pub members: Vec<ListedMember>,
    /// What it has counted since it has started.
    pub counts: Counts,
}

/// A member as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMember {
    /// Its number.
    pub member: u64,
    /// `voter`, `learner`, or `incoming` or `outgoing` while voters change.
    pub part: String,
    /// Its address.
    pub address: String,
    /// Up to where its log is the leader's, if the leader tells.
    pub acknowledged: Option<u64>,
}

/// What a member has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Commands that it has proposed.
    pub commands: u64,
    /// Entries that they were in.
    pub entries: u64,
    /// Reads that it has answered.
    pub reads: u64,
    /// Those that were answered by a lease.
    pub reads_by_lease: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Commands that ended as *unknown*.
    pub unknown: u64,
    /// Snapshots that were written.
    pub snapshots: u64,
    /// Snapshots that were taken over from a leader.
    pub installed: u64,
    /// Times it was elected.
    pub elected: u64,
    /// Times it has ceased to lead as it had not heard a majority.
    pub majorities_lost: u64,
    /// Messages of other groups, or for other members.
    pub misaddressed: u64,
    /// Messages that were none.
    pub malformed: u64,
    /// Messages of somebody who has a member's number and is not it.
    pub impostors: u64,
    /// Messages that were not sent, as a member could not be reached.
    pub lost: u64,
}

pub(super) fn of<M: StateMachine + Send + 'static, L: Log>(
    member: &Member<M, L, RequestHandle>,
    (group, charter): (u128, Charter),
    (impostors, lost): (u64, u64),
) -> MemberStatus {
    let (replica, state) = (member.replica(), member.state());
    let status = replica.status();
    let acknowledged = |id| status.followers.iter().find(|(of, _)| *of == id).map(|one| one.1);
    let listed = member.membership().members().iter().map(|one| ListedMember {
        member: one.id.0,
        part: part(one.part).to_owned(),
        address: Contact::decode(&one.context)
            .map_or_else(|| "unknown".to_owned(), |contact| contact.address.to_string()),
        acknowledged: acknowledged(one.id),
    });
    let (counted, counters) = (member.counters(), status.counters);
    MemberStatus {
        group: format!("{group:032x}"),
        charter,
        member: replica.id().0,
        role: role(status.role).to_owned(),
        term: status.term,
        leader: status.leader.map(|leader| leader.0),
        last: status.last.index,
        committed: status.committed,
        durable: status.durable,
        applied: state.applied(),
        time_ms: state.time_ms(),
        sessions: state.sessions() as u64,
        is_full: member.is_full(),
        members: listed.collect(),
        counts: Counts {
            commands: counted.commands,
            entries: counted.entries,
            reads: counted.reads,
            reads_by_lease: counted.reads_by_lease,
            refused: counted.refused,
            unknown: counted.unknown,
            snapshots: counted.snapshots,
            installed: counted.installed,
            elected: counters.elected,
            majorities_lost: counters.majorities_lost,
            misaddressed: counters.misaddressed,
            malformed: counters.malformed,
            impostors,
            lost,
        },
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Leader => "leader",
    }
}

fn part(part: Part) -> &'static str {
    match part {
        Part::Learner => "learner",
        Part::Voter => "voter",
        Part::Incoming => "incoming",
        Part::Outgoing => "outgoing",
    }
}
