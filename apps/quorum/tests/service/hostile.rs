//! Bytes that are no requests, and somebody who says he is a member.

use petasos_base::Rng;
use petasos_endpoint::{CallError, Completion, Context, MsgBuf};
use petasos_quorum::member::Freshness;
use petasos_quorum::reply::{Reply, Status};
use petasos_quorum::service::{ADMIN, COMMAND, PIECE, READ, REPLICATE};

use crate::group::{Group, Keeping, PATIENCE, endpoint};
use crate::table::{get, put};

type Come = Vec<Result<Vec<u8>, CallError>>;

fn keep(come: &mut Come, cx: &mut Context<Come>, done: Completion<'_>) {
    come.push(done.result.map(|payload| payload.to_vec()));
    cx.free(done.request);
}

/// Calls a member with any bytes, one call after the other; returns the answers.
fn call(group: &Group, member: u64, method: u16, all: &[Vec<u8>]) -> Come {
    let (mut endpoint, _node) = endpoint(Come::new());
    let session = endpoint.connect_and_wait(group.address(member), PATIENCE).unwrap();
    let ask = |bytes: &Vec<u8>| {
        let cx = endpoint.context();
        let request = MsgBuf::from_slice(bytes);
        cx.enqueue_request(session, method, request, keep, 0).map_err(|_| "refused").unwrap();
        assert!(endpoint.run_for(PATIENCE, |come, _| !come.is_empty()), "it answers");
        endpoint.state_mut().pop().unwrap()
    };
    all.iter().map(ask).collect()
}

/// Any bytes are answered, and cost nobody anything.
#[test]
fn garbage_is_answered_and_changes_nothing() {
    let group = Group::start(3, Keeping::Memory);
    let mut connected = group.client();
    let client = &mut connected.client;
    put(client, b"key", b"value").unwrap();
    let leader = group.leader();
    let mut rng = Rng::new(11);
    let garbage = |rng: &mut Rng| -> Vec<u8> {
        let length = rng.below(120);
        (0..length).map(|_| rng.next_u64() as u8).collect()
    };
    let all: Vec<_> = (0..200).map(|_| garbage(&mut rng)).collect();
    for method in [COMMAND, READ, ADMIN] {
        for (bytes, answer) in all.iter().zip(call(&group, leader, method, &all)) {
            let answer = answer.unwrap();
            let reply = Reply::decode(&answer).unwrap();
            assert_eq!(reply.status, Status::Malformed, "{bytes:?}");
        }
    }
    for answer in call(&group, leader, REPLICATE, &all) {
        assert_eq!(answer, Ok(Vec::new()));
    }
    for answer in call(&group, leader, PIECE, &all) {
        assert!(Reply::decode(&answer.unwrap()).is_some());
    }
    assert_eq!(group.leader(), leader);
    assert_eq!(get(client, b"key", Freshness::Latest), Some(b"value".to_vec()));
}

/// QR8: who has a member's number and not its incarnation is not it, whatever he says.
#[test]
fn an_impostor_is_not_heard() {
    let group = Group::start(3, Keeping::Memory);
    let mut connected = group.client();
    put(&mut connected.client, b"key", b"value").unwrap();
    let leader = group.leader();
    let other = (1..=3).find(|member| *member != leader).unwrap();
    let before = group.await_status(leader, |_| true);
    // A message of a far later term would end the leader's.
    let mut frame = [&7_u128.to_le_bytes()[..], &other.to_le_bytes()].concat();
    frame.extend_from_slice(&[1, 4, 0, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(&u128::from_str_radix(&before.group, 16).unwrap().to_le_bytes());
    for number in [other, leader, before.term + 1000] {
        frame.extend_from_slice(&number.to_le_bytes());
    }
    let answers = call(&group, leader, REPLICATE, &[frame]);
    assert_eq!(answers, [Ok(Vec::new())]);
    let after = group.await_status(leader, |status| status.counts.impostors > 0);
    assert_eq!((after.term, after.counts.malformed), (before.term, before.counts.malformed));
}
