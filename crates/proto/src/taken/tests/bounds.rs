//! What one client makes a worker hold.

use super::*;

/// Lets a claim lapse, and says after how many milliseconds it did.
fn lapses_after(worker: &mut Worker, client: u32) -> u128 {
    let claim = worker.claim(client);
    let began = worker.now;
    while worker.held() > 0 {
        worker.waits(250);
    }
    worker.taken.cancel(claim);
    (worker.now - began).as_millis()
}

#[test]
fn rt17_who_never_confirms_holds_slots_for_a_millisecond() {
    let mut worker = Worker::new();
    let mut took = Vec::new();
    for _ in 0..8 {
        took.push(lapses_after(&mut worker, 5));
    }
    for (took, claim) in took.iter().zip([20, 10, 5, 2, 1, 1, 1, 1]) {
        assert!((claim..claim + 2).contains(took), "{took} and not {claim}");
    }
    assert!(lapses_after(&mut worker, 6) >= 20, "others have their time");
    // Confirming leads back, also late.
    let late = worker.claim(5);
    while worker.held() > 0 {
        worker.waits(250);
    }
    let answer = worker.taken.receive(worker.now, late, Part::Last);
    assert_eq!(answer, Progress::Rejected(RejectCode::Again));
    let took = lapses_after(&mut worker, 5);
    assert!((1..3).contains(&took), "halved and doubled: {took}");
    for _ in 0..7 {
        let id = worker.claim(5);
        assert_eq!(worker.taken.receive(worker.now, id, Part::Last), Progress::Run);
        worker.taken.answer(worker.now, id, true);
    }
    assert!(lapses_after(&mut worker, 5) >= 20);
    assert!(lapses_after(&mut worker, 5) < 20);
    worker.taken.forget(7);
}

#[test]
fn rt39_a_client_may_have_as_many_sessions_as_it_leaves_free() {
    let mut worker = Worker::with(TakenConfig { sessions_max: 16, ..TakenConfig::default() });
    let mut greedy = Vec::new();
    loop {
        let asker = worker.asker(0);
        match worker.claim_of(asker) {
            Ok(id) => greedy.push(id),
            Err((NoRoom, context)) => {
                assert_eq!(context, asker.request);
                break;
            }
        }
    }
    assert_eq!((greedy.len(), worker.held()), (8, 8), "what had no room is settled");
    for _ in 0..4 {
        worker.claim(1);
    }
    let asker = worker.asker(1);
    assert!(worker.claim_of(asker).is_err());
    worker.claim(2);
    assert_eq!(worker.taken.sessions_of(0), 8);
    for id in greedy {
        worker.taken.cancel(id).unwrap();
    }
    assert_eq!((worker.taken.sessions_of(0), worker.taken.stats().no_room), (0, 2));
    worker.claim(1);
}

#[test]
fn rt39_answers_that_nobody_fetches_take_room_for_a_while() {
    let mut worker = Worker::with(TakenConfig { sessions_max: 4, ..TakenConfig::default() });
    for _ in 0..2 {
        let id = worker.whole(0);
        worker.taken.answer(worker.now, id, false);
    }
    let asker = worker.asker(0);
    assert!(worker.claim_of(asker).is_err(), "nothing is given up for it");
    assert_eq!(worker.waits(2_010_000).len(), 2);
    worker.whole(0);
}

#[test]
#[should_panic(expected = "no such place for a client")]
fn places_of_clients_are_bounded() {
    let mut worker = Worker::with(TakenConfig { clients_max: 10, ..TakenConfig::default() });
    worker.claim(10);
}
