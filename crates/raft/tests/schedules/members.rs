//! Changes of members, entries that are not durable, and followers that are far behind.

use petasos_raft::{
    Change, Entry, Kind, MemberId, Membership, NotChanged, NotProposed, Output, Part, Position,
    Settings,
};

use crate::group::{GROUP, Group};

fn plain(settings: Settings) -> Settings {
    settings
}

/// QR5: a leader counts itself only when its own disk has the entry.
#[test]
fn a_leader_counts_itself_when_it_is_durable() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    group.member(1).is_fast = false;
    let now_us = group.now_us;
    let position = group.replica(1).propose(now_us, b"command").unwrap();
    group.poll(1);
    group.deliver(|letter| letter.from.0 != 3 && letter.to.0 != 3);
    // A majority has said that it has the entry, if the leader counts.
    assert!(group.replica(1).committed() < position.index);
    group.end_writes(1);
    assert_eq!(group.replica(1).committed(), position.index);
}

/// QR5: a follower acknowledges what is durable, and answers a round at once.
#[test]
fn a_follower_acknowledges_when_it_is_durable() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    group.member(2).is_fast = false;
    let now_us = group.now_us;
    let position = group.replica(1).propose(now_us, b"command").unwrap();
    group.replica(1).read().unwrap();
    group.poll(1);
    group.member(1).said.clear();
    group.deliver(|letter| letter.from.0 != 3 && letter.to.0 != 3);
    assert!(group.replica(1).committed() < position.index);
    assert!(matches!(group.member(1).said[..], [Output::Read { .. }]));
    group.end_writes(2);
    group.poll(2);
    group.deliver(|letter| letter.from.0 != 3 && letter.to.0 != 3);
    assert_eq!(group.replica(1).committed(), position.index);
}

/// QR8: one becomes a learner, then a voter, when it has caught up, and goes again.
#[test]
fn a_member_comes_and_goes() {
    let mut group = Group::new(1, plain);
    group.elect(1);
    let now_us = group.now_us;
    let context = b"host:1".to_vec();
    group.replica(1).change(now_us, Change::Add { context: context.clone() }, false).unwrap();
    let new = MemberId(2);
    assert_eq!(group.replica(1).membership().get(new).unwrap().part, Part::Learner);
    group.poll(1);
    let early = group.replica(1).change(now_us, Change::Promote(new), false);
    assert_eq!(early, Err(NotChanged::Behind));
    group.letters.clear();
    group.add(Settings::new(GROUP, new), 0);
    group.beats(1, 2, |_| true);
    assert_eq!(group.replica(2).membership().get(new).unwrap().context, context);
    let now_us = group.now_us;
    group.replica(1).change(now_us, Change::Promote(new), false).unwrap();
    assert!(group.replica(1).membership().is_joint());
    let second = group.replica(1).change(now_us, Change::Remove(new), false);
    assert_eq!(second, Err(NotChanged::InProgress));
    group.poll(1);
    group.deliver_all();
    assert_eq!(group.replica(1).membership().get(new).unwrap().part, Part::Voter);
    let again = group.replica(1).change(now_us, Change::Promote(new), false);
    assert_eq!(again, Err(NotChanged::IsVoter));
    // The leader itself goes: the other one follows it.
    group.replica(1).change(now_us, Change::Remove(MemberId(1)), false).unwrap();
    group.poll(1);
    group.beats(1, 1, |_| true);
    assert_eq!(group.replica(1).leader(), None);
    group.elect(2);
    assert_eq!(group.replica(2).membership().members().len(), 1);
    let now_us = group.now_us;
    let last = group.replica(2).change(now_us, Change::Remove(new), false);
    assert_eq!(last, Err(NotChanged::Limit));
    assert_eq!(group.replica(2).membership().next_id(), MemberId(3));
}

/// QR8: a leader that goes, and ceases to lead before anybody else has heard of the configuration
/// without it, does not keep the others from going on.
#[test]
fn a_leader_that_goes_is_not_needed_any_more() {
    let mut group = Group::new(2, plain);
    group.elect(1);
    group.beats(1, 2, |_| true);
    let now_us = group.now_us;
    group.replica(1).change(now_us, Change::Remove(MemberId(1)), false).unwrap();
    group.poll(1);
    group.deliver_one(1, 2);
    group.deliver_one(2, 1);
    // Now the last configuration is in its own log alone.
    assert_eq!(group.replica(1).membership().members().len(), 1);
    assert!(group.replica(2).membership().is_joint());
    group.beats(1, 15, |id| id != 2);
    assert_eq!(group.replica(1).leader(), None);
    for _ in 0..4 {
        for id in [1, 2] {
            group.now_us += 300_000;
            group.tick(id);
            group.deliver_all();
        }
    }
    group.beats(2, 1, |_| true);
    assert_eq!(group.replica(2).leader(), Some(MemberId(2)));
    let now_us = group.now_us;
    let position = group.replica(2).propose(now_us, b"on").unwrap();
    group.poll(2);
    group.deliver_all();
    assert_eq!(group.replica(2).committed(), position.index);
}

/// QR8: whoever would remain has to be heard, unless it is forced.
#[test]
fn a_change_that_would_leave_no_majority_is_refused() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    group.beats(1, 12, |id| id != 3);
    let now_us = group.now_us;
    let refused = group.replica(1).change(now_us, Change::Remove(MemberId(2)), false);
    assert_eq!(refused, Err(NotChanged::NoMajority));
    assert!(group.replica(1).change(now_us, Change::Remove(MemberId(3)), false).is_ok());
    let mut group = Group::new(3, plain);
    group.elect(1);
    group.beats(1, 12, |id| id != 3);
    let now_us = group.now_us;
    assert!(group.replica(1).change(now_us, Change::Remove(MemberId(2)), true).is_ok());
    let unknown = group.replica(2).change(now_us, Change::Remove(MemberId(9)), false);
    assert_eq!(unknown, Err(NotChanged::NotLeader { leader: Some(MemberId(1)) }));
}

/// What waits to be committed is bounded, and so is what is sent ahead of acknowledgements.
#[test]
fn a_leader_that_is_not_answered_takes_and_sends_little() {
    let mut group = Group::new(3, |settings| Settings {
        entry_bytes_max: 1000,
        message_bytes: 2000,
        window_bytes: 5000,
        uncommitted_bytes_max: 20_000,
        ..settings
    });
    group.elect(1);
    let now_us = group.now_us;
    assert_eq!(group.replica(1).propose(now_us, &[0; 1001]), Err(NotProposed::TooLong));
    let mut taken = 0;
    let mut sent = 0;
    while group.replica(1).propose(now_us, &[0; 1000]).is_ok() {
        taken += 1;
        group.poll(1);
        sent += group.letters.drain(..).map(|letter| letter.bytes.len()).sum::<usize>();
    }
    assert_eq!(taken, 20);
    assert_eq!(group.replica(1).propose(now_us, &[0; 1000]), Err(NotProposed::Busy));
    assert!(sent < 2 * (5000 + 2000 + 200), "{sent} bytes to two followers");
    group.beats(1, 8, |_| true);
    assert_eq!(group.replica(1).committed(), group.replica(1).last().index);
}

/// A follower that lacks what is no longer in memory gets it from the journal, and one that lacks
/// what the log has no longer gets a snapshot.
#[test]
fn followers_that_are_far_behind_are_brought_up_to_date() {
    let mut group = Group::new(3, |settings| Settings { kept_bytes: 0, ..settings });
    group.elect(1);
    let now_us = group.now_us;
    for _ in 0..40 {
        group.replica(1).propose(now_us, &[7; 100]).unwrap();
        group.poll(1);
        group.deliver(|letter| letter.to.0 != 3);
        group.letters.clear();
    }
    let journal: Vec<(Position, Kind, Vec<u8>)> = (1..=group.replica(1).last().index)
        .map(|index| {
            let entry = group.replica(1).entry(index).unwrap();
            (entry.position, entry.kind, entry.data.to_vec())
        })
        .collect();
    group.replica(1).release(u64::MAX);
    assert!(group.replica(1).entry(5).is_none());
    group.member(1).said.clear();
    group.beats(1, 4, |_| true);
    let Some(Output::Fetch { to: MemberId(3), index }) = group.member(1).said.pop() else {
        panic!("{:?}", group.member(1).said);
    };
    let skip = usize::try_from(index - 1).unwrap();
    let entries = journal[skip..].iter().map(|(position, kind, data)| Entry {
        position: *position,
        kind: *kind,
        data,
    });
    let now_us = group.now_us;
    group.replica(1).fetched(now_us, MemberId(3), entries.take(20));
    group.poll(1);
    group.deliver_all();
    assert_eq!(group.replica(3).last().index, index + 19);
    // Now the log forgets the rest.
    let last = group.replica(1).last();
    assert!(group.replica(1).compact(last.index));
    let now_us = group.now_us;
    group.replica(1).fetched(now_us, MemberId(3), []);
    group.beats(1, 3, |_| true);
    let wanted = Output::SendSnapshot { to: MemberId(3) };
    assert_eq!(group.member(1).said.iter().filter(|said| **said == wanted).count(), 1);
    let membership = Membership::of_voters(vec![Vec::new(); 3]);
    let now_us = group.now_us;
    assert!(group.replica(3).snapshot_installed(now_us, last, membership.clone()).unwrap());
    assert!(!group.replica(3).snapshot_installed(now_us, last, membership).unwrap());
    group.poll(3);
    group.replica(1).snapshot_sent(now_us, MemberId(3));
    group.beats(1, 2, |_| true);
    let position = group.replica(1).propose(now_us, b"on").unwrap();
    group.poll(1);
    group.deliver(|letter| letter.from.0 != 2 && letter.to.0 != 2);
    assert_eq!(group.replica(1).committed(), position.index);
}
