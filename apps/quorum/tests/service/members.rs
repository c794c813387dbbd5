//! Members that end, come back, join and go.

use std::time::Duration;

use petasos_quorum::client::{Client, ClientError};
use petasos_quorum::member::{Admin, Freshness};
use petasos_raft::MemberId;

use crate::group::{Group, Keeping};
use crate::table::{get, put};

/// QR2, QR13: what was acknowledged is there when another one leads, and after all have ended.
#[test]
fn what_is_acknowledged_stays() {
    let mut group = Group::on_disk(3, "stays");
    let mut connected = group.client();
    let client = &mut connected.client;
    for round in 0..6_u8 {
        put(client, &[b'k', round], &[round]).unwrap();
        let leader = group.leader();
        group.stop(leader);
        put(client, &[b'l', round], &[round]).unwrap();
        group.run(leader);
    }
    (1..=3).for_each(|member| group.stop(member));
    (1..=3).for_each(|member| group.run(member));
    for round in 0..6_u8 {
        assert_eq!(get(client, &[b'k', round], Freshness::Latest), Some(vec![round]));
        assert_eq!(get(client, &[b'l', round], Freshness::Latest), Some(vec![round]));
    }
}

/// QR4: without a majority nothing is done, and that is said in time.
#[test]
fn without_a_majority_nothing_is_acknowledged() {
    let mut group = Group::start(3, Keeping::Memory);
    let mut connected = group.client_with(Duration::from_secs(3));
    let client = &mut connected.client;
    put(client, b"key", b"before").unwrap();
    let leader = group.leader();
    let others: Vec<u64> = (1..=3).filter(|member| *member != leader).collect();
    others.iter().for_each(|member| group.stop(*member));
    let late = put(client, b"key", b"late");
    assert!(matches!(late, Err(ClientError::Unknown | ClientError::Unavailable)), "{late:?}");
    // The leader has stepped down by now, and takes nothing.
    group.await_status(leader, |status| status.role != "leader");
    let later = put(client, b"key", b"later");
    assert_eq!(later, Err(ClientError::Unavailable));
}

/// Asks until it is done: on a busy host, a leader may fall silent for long enough to lose its
/// place, and then nobody knows whether it was.
fn insist(client: &mut Client, admin: &Admin) -> u64 {
    for _ in 0..100 {
        match client.admin(admin) {
            Ok(number) => return number,
            Err(ClientError::NotAllowed(why)) if why.contains("voter already") => return 0,
            Err(ClientError::NotAllowed(why)) if why.contains("no such member") => return 0,
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    panic!("{admin:?} is not done");
}

/// QR8, QR21: members join a group that has forgotten how it began, by a snapshot, vote, and go.
fn joins_and_goes(mut group: Group) {
    let mut connected = group.client();
    let client = &mut connected.client;
    let value = vec![1; 30_000];
    // More than two snapshots' worth, so that the log's beginning is gone.
    for round in 0..130_u8 {
        put(client, &[b'k', round % 20], &value).unwrap();
    }
    let leader = group.leader();
    group.await_status(leader, |status| status.counts.snapshots >= 2);
    let mut new = 0;
    for _ in 0..2 {
        new = group.join(|contact| insist(client, &Admin::Add(contact)));
        let status = group.await_status(leader, |_| true);
        let applied = status.applied;
        group.await_status(new, |status| status.applied >= applied);
        insist(client, &Admin::Promote(MemberId(new)));
    }
    let status = group.await_status(new, |status| status.members.len() == 5);
    assert!(status.counts.installed > 0, "{status:?}");
    // The new ones can lead, and the old ones go.
    insist(client, &Admin::HandOver(MemberId(new)));
    group.await_status(new, |status| status.role == "leader");
    for member in 1..=3 {
        insist(client, &Admin::Remove { member: MemberId(member), forced: false });
        group.stop(member);
        put(client, b"after", &[u8::try_from(member).unwrap()]).unwrap();
    }
    assert_eq!(get(client, b"after", Freshness::Latest), Some(vec![3]));
    assert_eq!(get(client, &[b'k', 7], Freshness::Latest), Some(value));
    let digests = digests(client, &group, &[new - 1, new]);
    assert_eq!(digests[0], digests[1]);
    let last = client.admin(&Admin::Remove { member: MemberId(99), forced: false });
    assert!(matches!(last, Err(ClientError::NotAllowed(_))), "{last:?}");
}

/// QR23: what all members have at the same entry.
fn digests(client: &mut Client, group: &Group, members: &[u64]) -> Vec<u128> {
    let index = client.mark().unwrap();
    let digest = |member: &u64| {
        group.await_status(*member, |status| status.applied >= index);
        let digest = client.digest_of(group.address(*member)).unwrap();
        assert_eq!(digest.index, index);
        digest.value
    };
    members.iter().map(digest).collect()
}

#[test]
fn members_join_and_go_in_memory() {
    joins_and_goes(Group::start(3, Keeping::Memory));
}

#[test]
fn members_join_and_go_on_disks() {
    joins_and_goes(Group::on_disk(3, "joins"));
}

/// QR21: a member that was away comes back to a log that no longer begins where its own ends.
#[test]
fn a_member_that_was_away_for_long_gets_a_snapshot() {
    let mut group = Group::on_disk(3, "away");
    let mut connected = group.client();
    let client = &mut connected.client;
    put(client, b"first", b"1").unwrap();
    let away = (1..=3).find(|member| *member != group.leader()).unwrap();
    group.stop(away);
    let value = vec![1; 30_000];
    for round in 0..130_u8 {
        put(client, &[b'k', round % 20], &value).unwrap();
    }
    group.await_status(group.leader(), |status| status.counts.snapshots >= 2);
    group.run(away);
    let applied = group.await_status(group.leader(), |_| true).applied;
    let status = group.await_status(away, |status| status.applied >= applied);
    assert!(status.counts.installed > 0, "{status:?}");
    // It goes on from there after another start.
    group.stop(away);
    group.run(away);
    group.await_status(away, |status| status.applied >= applied);
    let all = digests(client, &group, &[1, 2, 3]);
    assert!(all.iter().all(|digest| *digest == all[0]), "{all:?}");
}
