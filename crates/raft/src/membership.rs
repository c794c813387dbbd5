//! Who belongs to a group: a configuration entry's data (QR8).

use crate::MemberId;
use petasos_base::ByteReader;

/// The most members of a group, learners included.
pub const MEMBERS_MAX: usize = 16;

/// The most voters of a group.
pub const VOTERS_MAX: usize = 7;

/// The longest context of a member, in bytes.
pub const CONTEXT_BYTES_MAX: usize = 1024;

/// What a member does. While voters change (joint consensus), old and new ones have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It gets entries, and has no vote.
    Learner,
    /// It votes.
    Voter,
    /// It becomes a voter: it votes among the new ones.
    Incoming,
    /// It ceases to be a voter: it votes among the old ones.
    Outgoing,
}

impl Part {
    const ALL: [Part; 4] = [Part::Learner, Part::Voter, Part::Incoming, Part::Outgoing];

    /// Whether it votes among the old voters.
    pub fn is_old_voter(self) -> bool {
        matches!(self, Part::Voter | Part::Outgoing)
    }

    /// Whether it votes among the new voters, of which there are some while voters change.
    pub fn is_new_voter(self) -> bool {
        matches!(self, Part::Voter | Part::Incoming)
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// What it does.
    pub part: Part,
    /// What the caller wants all members to know of it, such as its addresses: at most
    /// [`CONTEXT_BYTES_MAX`]. It does not change.
    pub context: Vec<u8>,
}

/// A group's configuration. Members are in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    members: Vec<Member>,
    /// The number that the next new member gets.
    next: u64,
}

impl Membership {
    /// The first configuration of a group: voters with the numbers 1, 2, … and these contexts.
    ///
    /// # Panics
    /// If there are none, more than [`VOTERS_MAX`], or one has a longer context than
    /// [`CONTEXT_BYTES_MAX`].
    pub fn of_voters(contexts: Vec<Vec<u8>>) -> Membership {
        assert!((1..=VOTERS_MAX).contains(&contexts.len()), "a group has 1 to 7 voters");
        assert!(contexts.iter().all(|context| context.len() <= CONTEXT_BYTES_MAX));
        let next = contexts.len() as u64 + 1;
        let members = (1..).map(MemberId).zip(contexts);
        let members = members.map(|(id, context)| Member { id, part: Part::Voter, context });
        Membership { members: members.collect(), next }
    }

    /// All members.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A member.
    pub fn get(&self, id: MemberId) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Whether voters are changing.
    pub fn is_joint(&self) -> bool {
        self.members.iter().any(|member| matches!(member.part, Part::Incoming | Part::Outgoing))
    }

    /// The number that the next new member gets.
    pub fn next_id(&self) -> MemberId {
        MemberId(self.next)
    }

    /// Whether `count` holds for a majority of the old voters, and of the new ones if voters are
    /// changing.
    pub fn has_majority(&self, count: impl Fn(MemberId) -> bool) -> bool {
        let among = |votes: fn(Part) -> bool| {
            let voters = || self.members.iter().filter(move |member| votes(member.part));
            2 * voters().filter(|member| count(member.id)).count() > voters().count()
        };
        among(Part::is_old_voter) && (!self.is_joint() || among(Part::is_new_voter))
    }

    /// The number of voters, old and new.
    pub(crate) fn voters(&self) -> usize {
        self.members.iter().filter(|member| member.part != Part::Learner).count()
    }

    /// With a new learner.
    pub(crate) fn with_learner(&self, context: Vec<u8>) -> Membership {
        let mut members = self.members.clone();
        members.push(Member { id: self.next_id(), part: Part::Learner, context });
        Membership { members, next: self.next + 1 }
    }

    /// With another part for `id`.
    pub(crate) fn with_part(&self, id: MemberId, part: Part) -> Membership {
        let mut changed = self.clone();
        for member in changed.members.iter_mut().filter(|member| member.id == id) {
            member.part = part;
        }
        changed
    }

    /// Without a member.
    pub(crate) fn without(&self, id: MemberId) -> Membership {
        let mut changed = self.clone();
        changed.members.retain(|member| member.id != id);
        changed
    }

    /// What a joint configuration becomes: the new voters are the voters, and who was one of the
    /// old ones only is gone.
    pub(crate) fn settled(&self) -> Membership {
        let mut settled = self.clone();
        settled.members.retain(|member| member.part != Part::Outgoing);
        for member in settled.members.iter_mut().filter(|member| member.part == Part::Incoming) {
            member.part = Part::Voter;
        }
        settled
    }

    /// Writes the configuration: members (1 byte), the next number (8), and of each member number
    /// (8), part (1), the context's length (2) and the context.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let count = u8::try_from(self.members.len()).expect("there are at most 16");
        bytes.push(count);
        bytes.extend_from_slice(&self.next.to_le_bytes());
        for Member { id, part, context } in &self.members {
            let length = u16::try_from(context.len()).expect("contexts are short");
            bytes.extend_from_slice(&id.0.to_le_bytes());
            bytes.push(*part as u8);
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(context);
        }
    }

    /// Reads it again, from bytes that nobody vouches for.
    pub fn decode(bytes: &[u8]) -> Option<Membership> {
        let mut bytes = ByteReader::new(bytes);
        let count = usize::from(bytes.u8()?);
        if count > MEMBERS_MAX {
            return None;
        }
        let next = bytes.u64()?;
        let members = (0..count).map(|_| member(&mut bytes)).collect::<Option<Vec<_>>>()?;
        bytes.end(())?;
        let membership = Membership { members, next };
        membership.is_consistent().then_some(membership)
    }

    /// Numbers go up and below the next one, and there are voters, but not too many.
    fn is_consistent(&self) -> bool {
        let ordered = self.members.windows(2).all(|pair| pair[0].id < pair[1].id);
        let below = self.members.last().is_none_or(|last| last.id.0 < self.next);
        let votes = |votes: fn(Part) -> bool| {
            let count = self.members.iter().filter(|member| votes(member.part)).count();
            (1..=VOTERS_MAX).contains(&count)
        };
        ordered && below && votes(Part::is_old_voter) && votes(Part::is_new_voter)
    }
}

fn member(bytes: &mut ByteReader<'_>) -> Option<Member> {
    let id = MemberId(bytes.u64()?);
    let part = *Part::ALL.get(usize::from(bytes.u8()?))?;
    let length = usize::from(bytes.u16()?);
    if length > CONTEXT_BYTES_MAX {
        return None;
    }
    Some(Member { id, part, context: bytes.take(length)?.to_vec() })
}
