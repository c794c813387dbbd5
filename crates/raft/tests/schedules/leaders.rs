//! Elections, and what leaders may believe.

use petasos_raft::{MemberId, NotHandedOver, NotProposed, Output, Role, Settings};

use crate::group::Group;

fn plain(settings: Settings) -> Settings {
    settings
}

fn with_lease(settings: Settings) -> Settings {
    Settings { lease_drift: Some(100), ..settings }
}

/// Two members are told that they would be elected, and stand in the same term. Whether both are,
/// if the third one crashes between its two answers and remembers `vote`.
fn two_lead(remembers: impl Fn((u64, Option<MemberId>)) -> (u64, Option<MemberId>)) -> bool {
    let mut group = Group::new(3, plain);
    group.expire(1);
    group.deliver_one(1, 3);
    group.expire(2);
    group.deliver_one(2, 3);
    group.letters.retain(|letter| letter.from.0 == 3);
    // Both stand.
    group.deliver_one(3, 1);
    group.deliver_one(3, 2);
    group.letters.retain(|letter| letter.to.0 == 3);
    group.deliver_one(1, 3);
    group.deliver_one(3, 1);
    let hard_state = remembers(group.member(3).hard_state);
    group.restart(3, 3, hard_state);
    group.letters.retain(|letter| letter.from.0 == 2 && letter.to.0 == 3);
    group.deliver_all();
    let both = [1, 2].map(|id| group.replica(id).role() == Role::Leader);
    assert_eq!(group.replica(1).term(), group.replica(2).term());
    both == [true, true]
}

/// QR5.
#[test]
fn a_vote_that_is_remembered_is_not_given_twice() {
    assert!(!two_lead(|hard_state| hard_state));
    assert!(two_lead(|(term, _)| (term, None)), "a forgotten vote makes two leaders of a term");
}

/// QR5: nobody hears of a vote before it is durable.
#[test]
fn a_vote_waits_for_the_disk() {
    let mut group = Group::new(3, plain);
    group.member(3).is_fast = false;
    group.expire(1);
    group.deliver(|letter| letter.to.0 != 2 && letter.from.0 != 2);
    assert_eq!(group.replica(1).role(), Role::Candidate);
    group.end_writes(3);
    group.poll(3);
    group.deliver(|letter| letter.to.0 != 2 && letter.from.0 != 2);
    assert_eq!(group.replica(1).role(), Role::Leader);
}

/// QR6: a member that hears nobody does not count its term up, and disturbs nobody when it is back.
#[test]
fn a_member_that_was_away_disturbs_nobody() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    let term = group.replica(1).term();
    for _ in 0..400 {
        group.beats(1, 1, |id| id != 3);
        if group.replica(3).next_tick_us() <= group.now_us {
            group.tick(3);
            group.letters.clear();
        }
    }
    assert!(group.replica(3).status().counters.pre_votes > 10);
    assert_eq!(group.replica(3).term(), term);
    // Its question arrives, while the others hear the leader.
    group.expire(3);
    group.beats(1, 1, |_| true);
    assert_eq!(group.replica(1).leader(), Some(MemberId(1)));
    assert_eq!([1, 2, 3].map(|id| group.replica(id).term()), [term; 3]);
    assert_eq!(group.replica(3).leader(), Some(MemberId(1)));
}

/// QR6: a vote in a later term is withheld, too.
#[test]
fn votes_are_withheld_while_a_leader_is_heard() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    group.beats(1, 3, |id| id != 3);
    // The third has been told by the others, before they heard the leader, that it would be
    // elected.
    let mut early = Group::new(3, plain);
    early.elect(2);
    early.now_us += 400_000;
    early.expire(3);
    early.deliver(|letter| letter.bytes[1] <= 2);
    let votes: Vec<_> = early.letters.drain(..).filter(|letter| letter.to.0 == 2).collect();
    assert_eq!((votes.len(), votes[0].bytes[1]), (1, 3));
    let term = group.replica(2).term();
    group.letters.extend(votes);
    group.deliver(|letter| letter.to.0 == 2);
    assert_eq!(group.replica(2).term(), term);
}

/// QR6: who leads alone stops within the shortest timeout and a beat.
#[test]
fn a_leader_that_hears_no_majority_steps_down() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    let until_us = group.now_us + 150_000 + 2 * 15_000;
    while group.now_us < until_us && group.replica(1).role() == Role::Leader {
        group.expire(1);
        group.letters.clear();
    }
    assert_eq!(group.replica(1).role(), Role::Follower);
    let now_us = group.now_us;
    let refused = group.replica(1).propose(now_us, b"late");
    assert_eq!(refused, Err(NotProposed::NotLeader { leader: None }));
    assert_eq!(group.replica(1).status().counters.majorities_lost, 1);
}

/// QR6: a connection that ends is silence.
#[test]
fn followers_do_not_wait_for_a_leader_whose_connection_has_ended() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    group.beats(1, 2, |_| true);
    let now_us = group.now_us;
    for id in [2, 3] {
        group.replica(id).disconnected(now_us, MemberId(1));
        group.poll(id);
        assert!(group.replica(id).next_tick_us() <= now_us + 15_000);
    }
    group.expire(2);
    group.deliver(|letter| letter.from.0 != 1 && letter.to.0 != 1);
    assert_eq!(group.replica(2).role(), Role::Leader);
    assert!(group.now_us <= now_us + 15_000);
}

/// QR7.
#[test]
fn a_leader_hands_over_and_takes_nothing_meanwhile() {
    for settings in [plain, with_lease] {
        let mut group = Group::new(3, settings);
        // Who starts with leases has promised nothing to anybody, but does not know it.
        group.now_us += 200_000;
        group.elect(1);
        group.beats(1, 2, |_| true);
        let now_us = group.now_us;
        assert_eq!(group.replica(1).hand_over(now_us, MemberId(9)), Err(NotHandedOver::NotAVoter));
        group.replica(1).hand_over(now_us, MemberId(2)).unwrap();
        let refused = group.replica(1).propose(now_us, b"no");
        assert_eq!(refused, Err(NotProposed::HandingOver));
        assert_eq!(group.replica(1).read_by_lease(now_us), None);
        group.poll(1);
        group.deliver_all();
        for _ in 0..30 {
            if group.replica(2).role() == Role::Leader {
                break;
            }
            group.expire(1);
            group.deliver_all();
        }
        assert_eq!(group.replica(2).role(), Role::Leader);
        assert_eq!(group.replica(1).leader(), Some(MemberId(2)));
    }
}

/// QR7: if the other one does not answer, the leader leads on.
#[test]
fn handing_over_ends_after_a_timeout() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    group.beats(1, 1, |_| true);
    let now_us = group.now_us;
    group.replica(1).hand_over(now_us, MemberId(2)).unwrap();
    group.beats(1, 12, |id| id != 2);
    let now_us = group.now_us;
    group.replica(1).propose(now_us, b"on").unwrap();
}

/// QR15: a voter that starts again keeps what it may have promised before, also to a leader that
/// hands over.
#[test]
fn a_voter_that_starts_again_keeps_its_promise() {
    let mut group = Group::new(3, with_lease);
    group.now_us += 200_000;
    group.elect(1);
    group.beats(1, 2, |_| true);
    let now_us = group.now_us;
    assert!(group.replica(1).read_by_lease(now_us).is_some());
    let hard_state = group.member(2).hard_state;
    group.restart(2, 3, hard_state);
    // The third looks for a leader that it no longer hears, and the second could elect it.
    group.replica(3).disconnected(now_us, MemberId(1));
    group.expire(3);
    group.deliver(|letter| letter.from.0 != 1 && letter.to.0 != 1);
    assert_eq!(group.replica(3).role(), Role::Follower);
    let now_us = group.now_us;
    assert!(group.replica(1).read_by_lease(now_us).is_some(), "the leader still reads");
}

/// QR14: one round for all reads that wait, and no answer without a majority.
#[test]
fn reads_wait_for_a_majority() {
    let mut group = Group::new(3, plain);
    group.elect(1);
    group.member(1).said.clear();
    let first = group.replica(1).read().unwrap();
    assert_eq!(group.replica(1).read(), Ok(first));
    group.poll(1);
    assert_eq!(group.member(1).said, []);
    let later = group.replica(1).read().unwrap();
    assert!(later > first);
    group.deliver(|letter| letter.from.0 != 3 && letter.to.0 != 3);
    let committed = group.replica(1).committed();
    let expected = [first, later].map(|round| Output::Read { round, index: committed });
    assert_eq!(group.member(1).said, expected);
    assert_eq!(group.replica(2).read(), Err(Some(MemberId(1))));
}

/// QR14: a new leader does not know what was acknowledged before its first entry is committed.
#[test]
fn reads_wait_for_the_first_entry_of_a_leader() {
    let mut group = Group::new(3, plain);
    group.member(1).is_fast = false;
    group.expire(1);
    group.end_writes(1);
    group.deliver(|letter| letter.to.0 != 1);
    // It is elected when it hears the answers, and its disk does not write its first entry.
    group.deliver_all();
    group.end_writes(1);
    group.poll(1);
    group.deliver_all();
    assert_eq!(group.replica(1).role(), Role::Leader);
    let committed = group.replica(1).committed();
    let last = group.replica(1).last().index;
    assert!(committed < last, "{committed} {last}");
    group.replica(1).read().unwrap();
    group.poll(1);
    group.deliver_all();
    let read = group.member(1).said.iter().find_map(|said| match said {
        Output::Read { index, .. } => Some(*index),
        _ => None,
    });
    assert_eq!(read, Some(last));
}
