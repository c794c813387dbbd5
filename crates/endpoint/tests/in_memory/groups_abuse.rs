//! Parties of a group that do not keep to the rules: a router that gives to all, clients that
//! finish nothing, and the packets that break R2P2's public code.

use petasos_base::Rng;
use petasos_control::Cipher;
use petasos_endpoint::{CallError, MembershipId};
use petasos_wire::{Kind, Packet};

use crate::grouped::*;
use crate::joined::*;

fn group(workers: usize, is_sealed: bool) -> Grouped {
    if is_sealed { Grouped::sealed(workers, Cipher::Aes128Gcm) } else { Grouped::new(workers) }
}

/// RT15: the client confirms one, whatever readies it hears, and tells the others to forget it.
#[test]
fn rt15_a_router_that_gives_each_claim_to_all_workers_has_each_call_run_once() {
    for is_sealed in [false, true] {
        let (mut group, mut rng) = (group(3, is_sealed), Rng::new(5));
        group.gives_to_all = true;
        for tag in 0..60 {
            let bytes = [0, 8, 1025, 9_000][tag as usize % 4];
            group.call(ECHO, &pattern(bytes), tag, ONCE);
            group.run_with(2, |_, _| match rng.below(20) {
                0 => Fate::IsLost,
                1 => Fate::ArrivesTwice,
                _ => Fate::Arrives,
            });
        }
        group.run_ms(5_000);
        let mut answered = 0;
        for tag in 0..60 {
            let bytes = [0, 8, 1025, 9_000][tag as usize % 4];
            match group.outcome(tag) {
                Ok(response) => {
                    assert_eq!(*response, pattern(bytes));
                    answered += 1;
                }
                // Its confirmation came too late: it has not run (RT17).
                Err(error) => assert!(error.retry_is_safe(), "{error:?}"),
            }
        }
        assert_eq!(group.handled(), answered, "each of them once, and no other");
        assert!(answered > 50 && group.client.stats().pairs.cancels > 100);
        group.assert_quiet();
    }
}

/// What a worker has: whether anything of it is not settled, and bytes of its pool.
fn held(group: &mut Grouped) -> (bool, u64) {
    group.probe(0);
    group.run_ms(1);
    let member = &group.members[0];
    let told = member.told.expect("a probe is answered");
    (told.settled < member.given, member.endpoint.memory().pool.lent_bytes as u64)
}

/// RT17: it is given up, also if the part that is there comes again and again, and others have its
/// slot and its memory.
#[test]
fn rt17_half_of_a_request_is_given_up_however_often_it_comes() {
    let mut group = group(1, false);
    group.call(ECHO, &pattern(600_000), 1, ONCE);
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let is_part = |bytes: &[u8]| {
        let packet = Packet::parse(bytes).expect("it is one");
        packet.kind() == Kind::Request
    };
    for _ in 0..30 {
        group.run_seen(1, |_, bytes| {
            if is_part(bytes) {
                parts.push(bytes.to_vec());
            }
        });
        if parts.len() > 3 {
            break;
        }
    }
    parts.truncate(3);
    assert!(held(&mut group).0, "it is not complete");
    // The client itself is silent from now on, but for what it repeats.
    for round in 0..60 {
        parts.iter().for_each(|part| group.deliver_to_worker(0, part));
        group.run_with(5, |_, kind| match kind {
            Kind::Request => Fate::IsLost,
            _ => Fate::Arrives,
        });
        if !held(&mut group).0 {
            assert!((15..40).contains(&round), "{round}: after some 100 ms");
            break;
        }
    }
    assert_eq!(held(&mut group), (false, 0));
    let stats = group.members[0].endpoint.stats();
    assert_eq!((stats.taken.stalled, group.handled()), (1, 0));
    group.run_ms(3_000);
    assert_eq!(*group.outcome(1), Err(CallError::Again), "it has not run");
    group.assert_quiet();
}

/// RT18: its slot is back when it is answered, and its memory two seconds after its client's last
/// packet.
#[test]
fn rt18_a_response_that_nobody_pulls_is_kept_for_a_while_only() {
    let mut group = group(1, false);
    group.call(LONG, &200_000_u32.to_le_bytes(), 1, ONCE);
    let silent = |_, kind| match kind {
        Kind::Pull | Kind::Done | Kind::Cancel => Fate::IsLost,
        _ => Fate::Arrives,
    };
    group.run_with(10, silent);
    assert_eq!(group.handled(), 1);
    let (is_held, bytes) = held(&mut group);
    assert!(!is_held && bytes >= 200_000, "{bytes}");
    group.run_with(1_500, silent);
    assert!(held(&mut group).1 >= 200_000);
    group.run_with(3_000, silent);
    assert_eq!(held(&mut group).1, 0);
    assert_eq!(*group.outcome(1), Err(CallError::PeerFailed));
    group.assert_quiet();
}

/// What has passed between a client and its worker: for the worker, and for the client.
fn seen(group: &mut Grouped) -> [Vec<Vec<u8>>; 2] {
    let mut seen = [Vec::new(), Vec::new()];
    group.run_seen(3, |is_given, bytes| {
        let packet = Packet::parse(bytes).expect("it is one");
        match packet.kind() {
            Kind::Routed if !is_given => {}
            Kind::Routed | Kind::Request => seen[0].push(bytes.to_vec()),
            Kind::Feedback => {}
            _ => seen[1].push(bytes.to_vec()),
        }
    });
    seen
}

/// Orphans of requests, short packets and unknown ones, numbers that are used again, and second
/// readies: each is counted, none runs anything, and calls that run are not disturbed.
#[test]
fn what_breaks_the_public_r2p2_code_is_counted_and_costs_no_call() {
    let mut group = group(1, false);
    group.call(HOLD, b"held", 1, ONCE);
    group.call(HOLD, &pattern(3_000), 2, ONCE);
    let [to_worker, to_client] = seen(&mut group);
    assert!(to_worker.len() >= 6 && to_client.len() >= 2, "claims, requests; readies");
    let handled = group.handled();
    assert_eq!(handled, 2);
    let deliver = |group: &mut Grouped, is_to_worker: bool, bytes: &[u8]| {
        match is_to_worker {
            true => group.deliver_to_worker(0, bytes),
            false => group.deliver_to_client(bytes),
        }
        group.run(1);
    };
    for (packets, is_to_worker) in [(&to_worker, true), (&to_client, false)] {
        for bytes in packets {
            // Short ones.
            (1..bytes.len().min(100))
                .for_each(|len| deliver(&mut group, is_to_worker, &bytes[..len]));
            // Kinds that nobody has or sends.
            for kind in [0, 6, 7, 14, 15] {
                let unknown = [&[bytes[0] & 0x0f | kind << 4][..], &bytes[1..]].concat();
                deliver(&mut group, is_to_worker, &unknown);
            }
            // Orphans: of requests and pairs that never were, by another request's number.
            let mut orphan = bytes.clone();
            orphan[8] ^= 0x40;
            deliver(&mut group, is_to_worker, &orphan);
            // The same once more, as it was.
            deliver(&mut group, is_to_worker, bytes);
        }
    }
    let [client, worker] =
        [group.client.stats().event_loop, group.members[0].endpoint.stats().event_loop];
    for stats in [&client, &worker] {
        assert!(stats.malformed_short > 20 && stats.malformed_kind >= 2, "{stats:?}");
        assert_eq!(stats.panics, 0);
    }
    assert!(group.members[0].endpoint.stats().given.old >= 2, "numbers of claims again");
    assert_eq!(group.handled(), handled, "nothing runs twice");
    assert!(!group.is_over(1) && !group.is_over(2), "nothing ends a call that runs");
    for (handle, request) in std::mem::take(&mut group.members[0].endpoint.state_mut().held) {
        group.members[0].endpoint.context().respond_with(handle, &request);
    }
    group.run_ms(200);
    assert_eq!(*group.outcome(1), Ok(b"held".to_vec()));
    assert_eq!(*group.outcome(2), Ok(pattern(3_000)));
    group.run_ms(2_500);
    group.assert_quiet();
}

/// RT22: packets of a membership that has ended, and of one that never was, settle nothing.
#[test]
fn numbers_of_a_membership_that_has_ended_are_nobodys() {
    let mut group = group(1, false);
    group.call(ECHO, b"before", 1, WHOLE);
    let mut first = None;
    group.run_seen(2, |is_given, bytes| {
        if is_given {
            first = Some(bytes.to_vec());
        }
    });
    let former: MembershipId = group.members[0].id;
    group.join_again(0, 3, 2).expect("there is room");
    assert_ne!(former, group.members[0].id);
    let before = group.members[0].endpoint.stats();
    group.deliver_to_worker(0, &first.expect("it was given"));
    group.run(2);
    let after = group.members[0].endpoint.stats();
    assert_eq!((after.given, group.handled()), (before.given, 1));
    assert_eq!(after.event_loop.unknown_session, before.event_loop.unknown_session + 1);
}
