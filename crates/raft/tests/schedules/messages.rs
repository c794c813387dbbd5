//! Bytes that nobody vouches for.

use petasos_base::Rng;
use petasos_raft::{MemberId, Membership, Refused, Settings};

use crate::group::{GROUP, Group};

/// Messages of an election and of some commands.
fn messages() -> Vec<Vec<u8>> {
    let mut group = Group::new(3, |settings| Settings { lease_drift: Some(100), ..settings });
    group.now_us += 200_000;
    let mut all = Vec::new();
    group.expire(1);
    for _ in 0..8 {
        let now_us = group.now_us;
        let _ = group.replica(1).propose(now_us, b"some command");
        group.poll(1);
        let letters: Vec<_> = group.letters.drain(..).collect();
        for letter in letters {
            group.replica(letter.to.0).receive(now_us, &letter.bytes).unwrap();
            group.poll(letter.to.0);
            all.push(letter.bytes);
        }
    }
    all
}

/// QR8: a message of another group, or for another member, changes nothing.
#[test]
fn messages_for_others_are_refused() {
    let mut group = Group::new(3, |settings| settings);
    group.add(Settings::new(GROUP + 1, MemberId(2)), 3);
    let now_us = group.now_us;
    for bytes in messages() {
        let to_other_group = group.members[3].replica.receive(now_us, &bytes);
        assert_eq!(to_other_group, Err(Refused::Misaddressed));
    }
    let counters = group.members[3].replica.status().counters;
    assert_eq!(counters.misaddressed, messages().len() as u64);
    for bytes in messages() {
        // The member that it is for takes it; others do not.
        let taken = [1, 2, 3].map(|id| group.replica(id).receive(now_us, &bytes).is_ok());
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
    }
}

/// A message that is cut, or changed anywhere, is refused or means something else: nothing panics,
/// and numbers that are near the end of what can be counted are refused.
#[test]
fn damaged_messages_do_no_harm() {
    let mut rng = Rng::new(1);
    let whole = messages();
    assert!(whole.iter().any(|bytes| bytes[1] == 5 && bytes[4] > 1), "there are entries");
    let mut group = Group::new(3, |settings| settings);
    let now_us = group.now_us;
    for bytes in &whole {
        for length in 0..bytes.len() {
            let refused = group.replica(2).receive(now_us, &bytes[..length]);
            assert_eq!(refused, Err(Refused::Malformed));
        }
        for _ in 0..2000 {
            let mut changed = bytes.clone();
            for _ in 0..=rng.below(3) {
                let at = usize::try_from(rng.below(changed.len() as u64)).unwrap();
                changed[at] = [0, 1, 0x7f, 0xff, rng.next_u64() as u8]
                    [usize::try_from(rng.below(5)).unwrap()];
            }
            let mut victim = Group::new(3, |settings| settings);
            for id in 1..=3 {
                let _ = victim.replica(id).receive(now_us, &changed);
                victim.poll(id);
            }
        }
    }
}

#[test]
fn configurations_are_read_as_they_were_written_or_not_at_all() {
    let membership = Membership::of_voters(vec![b"a".to_vec(), Vec::new(), b"ccc".to_vec()]);
    let mut bytes = Vec::new();
    membership.encode(&mut bytes);
    assert_eq!(Membership::decode(&bytes), Some(membership));
    for length in 0..bytes.len() {
        assert_eq!(Membership::decode(&bytes[..length]), None);
    }
    for (at, value) in [(0, 17), (0, 2), (1, 3), (9, 9), (17, 4), (18, 0xff)] {
        let mut changed = bytes.clone();
        changed[at] = value;
        assert_eq!(Membership::decode(&changed), None, "byte {at}");
    }
}
