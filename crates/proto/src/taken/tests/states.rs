//! The table of RT18, state by state.

use super::*;

fn lapsed(id: TakenId, code: RejectCode) -> Due<u64> {
    Due::Lapsed { id, code }
}

#[test]
fn rt16_a_whole_request_that_is_answered_soon_leaves_nothing() {
    let mut worker = Worker::new();
    let id = worker.whole(0);
    assert_eq!((worker.held(), worker.taken.sessions()), (1, 1));
    worker.is_left_alone(1500);
    assert_eq!(worker.taken.answer(worker.now, id, true), Answered::Left(701));
    assert_eq!((worker.held(), worker.taken.sessions()), (0, 0));
    worker.is_left_alone(10_000);
    assert_eq!(
        worker.taken.answer(worker.now, id, true),
        Answered::Unwanted,
        "it is answered once"
    );
}

#[test]
fn rt16_a_longer_response_is_kept_to_be_pulled() {
    let mut worker = Worker::new();
    let id = worker.whole(0);
    let answered = worker.taken.answer(worker.now, id, false);
    let session = SessionName { index: id.index, tag: 77 };
    assert_eq!(answered, Answered::Kept(session));
    assert_eq!(worker.held(), 0, "settled as it was answered (RT21)");
    assert_eq!(worker.find(session, 701), Some(id));
    assert_eq!(worker.taken.done(id), Some(701));
    assert_eq!((worker.find(session, 701), worker.taken.sessions()), (None, 0));
}

#[test]
fn rt16_a_client_is_told_that_its_whole_request_runs() {
    let mut worker = Worker::new();
    let id = worker.whole(0);
    let session = SessionName { index: id.index, tag: 77 };
    assert_eq!(worker.find(session, 701), None, "nobody knows of it");
    worker.is_left_alone(1750);
    let due = worker.waits(1500);
    assert!(
        matches!(due[..], [Due::Ready { id: it, session: named, is_running: true, .. }]
            if it == id && named == session),
        "{due:?}"
    );
    worker.is_left_alone(3_000_000);
    assert_eq!(worker.find(session, 701), Some(id));
    assert_eq!(worker.taken.answer(worker.now, id, true), Answered::Kept(session));
}

#[test]
fn rt16_ready_is_repeated_until_the_client_is_heard() {
    let mut worker = Worker::new();
    let id = worker.claim(0);
    let began = worker.now;
    let mut told = Vec::new();
    for _ in 0..76 {
        let due = worker.due();
        let is_its = |due: &Due<u64>| matches!(due, Due::Ready { id: it, .. } if *it == id);
        assert!(due.iter().all(is_its), "{due:?}");
        told.extend(due.iter().map(|_| (worker.now - began).as_micros() as u64));
        worker.now = worker.now + Duration::from_micros(250);
    }
    for (told, after) in told.iter().zip([0, 1000, 3000, 7000, 15_000]) {
        // A slot of the wheel, and one of the test.
        assert!((after..after + 1300).contains(told), "{told} and not {after}");
    }
    assert_eq!(told.len(), 5);
    let heard = worker.claim(0);
    worker.knows(heard);
    assert_eq!(worker.taken.receive(worker.now, heard, Part::New), Progress::None);
    assert!(
        worker.waits(500).iter().all(|due| !matches!(due, Due::Ready { id, .. } if *id == heard))
    );
}

#[test]
fn rt17_a_claim_that_is_not_confirmed_never_runs() {
    let mut worker = Worker::new();
    let id = worker.claim(0);
    let session = worker.knows(id);
    let due = worker.waits(22_000);
    assert_eq!(due.last(), Some(&lapsed(id, RejectCode::Again)));
    assert_eq!(worker.held(), 0);
    assert_eq!(worker.find(session, 701), Some(id));
    for _ in 0..2 {
        let late = worker.taken.receive(worker.now, id, Part::Last);
        assert_eq!(late, Progress::Rejected(RejectCode::Again));
    }
    assert_eq!(worker.taken.stats().confirmed_late, 1);
    assert_eq!(worker.taken.answer(worker.now, id, true), Answered::Unwanted, "nothing runs");
    let due = worker.waits(2_002_000);
    assert_eq!(due, [Due::Gone { id, context: 701 }]);
    assert_eq!(worker.find(session, 701), None);
}

#[test]
fn rt17_a_request_that_stops_coming_is_given_up() {
    let mut worker = Worker::new();
    let id = worker.claim(0);
    worker.knows(id);
    worker.taken.receive(worker.now, id, Part::New);
    worker.is_left_alone(90_000);
    // What was there already is no progress.
    assert_eq!(worker.taken.receive(worker.now, id, Part::Old), Progress::None);
    assert_eq!(worker.waits(12_000), [lapsed(id, RejectCode::Again)]);
    assert_eq!((worker.held(), worker.taken.stats().stalled), (0, 1));
    let late = worker.taken.receive(worker.now, id, Part::Last);
    assert_eq!(late, Progress::Rejected(RejectCode::Again));
    assert_eq!(worker.taken.stats().confirmed_late, 0, "it was confirmed in time");
}

#[test]
fn rt17_a_request_that_comes_too_slowly_is_given_up() {
    let mut worker = Worker::new();
    let id = worker.claim(0);
    worker.knows(id);
    let began = worker.now;
    // 4000 bytes: 100 ms, and 40 ms more.
    for _ in 0..30 {
        worker.taken.receive(worker.now, id, Part::New);
        if worker.waits(5000) == [lapsed(id, RejectCode::Again)] {
            break;
        }
    }
    let took = (worker.now - began).as_micros();
    assert!((140_000..147_000).contains(&took), "{took}");
}

#[test]
fn rt6_nothing_runs_whose_time_is_over() {
    let mut worker = Worker::new();
    for is_complete in [true, false] {
        let expires_at = worker.now + Duration::from_millis(50);
        let asker = Asker { expires_at, ..worker.asker(0) };
        let id = worker.claim_of(asker).unwrap();
        worker.knows(id);
        worker.taken.receive(worker.now, id, Part::New);
        if is_complete {
            // The loop was away: no timer has been handled.
            worker.now = expires_at;
            let late = worker.taken.receive(worker.now, id, Part::Last);
            assert_eq!(late, Progress::Rejected(RejectCode::Expired));
        } else {
            assert_eq!(worker.waits(52_000), [lapsed(id, RejectCode::Expired)]);
        }
        assert_eq!(worker.held(), 0);
        assert_eq!(worker.taken.done(id), Some(asker.request));
    }
    assert_eq!(worker.taken.stats().expired, 2);
}

#[test]
fn rt18_an_answer_is_kept_until_its_client_is_silent() {
    let mut worker = Worker::new();
    let id = worker.running(0);
    // A handler may take longer than anything is kept.
    worker.is_left_alone(5_000_000);
    let session = SessionName { index: id.index, tag: 78 };
    assert_eq!(worker.taken.answer(worker.now, id, true), Answered::Kept(session));
    worker.is_left_alone(1_500_000);
    assert_eq!(worker.taken.receive(worker.now, id, Part::Old), Progress::None);
    worker.is_left_alone(1_500_000);
    worker.taken.hear(worker.now, id);
    worker.is_left_alone(1_990_000);
    assert_eq!(worker.waits(12_000), [Due::Gone { id, context: 701 }]);
    assert_eq!(worker.taken.cancel(id), None);
}

#[test]
fn rt18_a_cancel_ends_each_state() {
    let mut worker = Worker::new();
    let claimed = worker.claim(0);
    worker.knows(claimed);
    assert_eq!((worker.taken.cancel(claimed), worker.held()), (Some(701), 0));
    let receiving = worker.claim(0);
    worker.knows(receiving);
    worker.taken.receive(worker.now, receiving, Part::New);
    assert_eq!(worker.taken.done(receiving), None, "there is nothing to be had yet");
    assert_eq!((worker.taken.cancel(receiving), worker.held()), (Some(702), 0));
    let running = worker.running(0);
    assert_eq!(worker.taken.done(running), None);
    assert_eq!((worker.taken.cancel(running), worker.held()), (Some(703), 1));
    assert_eq!(worker.taken.cancel(running), None);
    assert_eq!(worker.taken.answer(worker.now, running, true), Answered::Unwanted);
    assert_eq!(worker.held(), 0, "settled as its handler ended (R11)");
    let rejected = worker.running(0);
    let kept = worker.taken.reject(worker.now, rejected, RejectCode::Overloaded);
    assert!(matches!(kept, Answered::Kept(_)), "{kept:?}");
    assert_eq!((worker.held(), worker.taken.cancel(rejected)), (0, Some(704)));
    assert_eq!(worker.taken.sessions(), 0);
    worker.is_left_alone(3_000_000);
}

#[test]
fn rt10_packets_with_another_tag_request_or_index_find_nothing() {
    let mut worker = Worker::new();
    let id = worker.claim(0);
    let session = worker.knows(id);
    assert_eq!(worker.find(session, 701), Some(id));
    assert_eq!(worker.find(session, 702), None);
    assert_eq!(worker.find(SessionName { tag: 79, ..session }, 701), None);
    for index in [session.index + 1, session.index & 0x7_ffff, u32::MAX] {
        assert_eq!(worker.find(SessionName { index, ..session }, 701), None);
    }
    worker.taken.cancel(id);
    // The place has another request, with another tag as a rule.
    let next = worker.claim(1);
    assert_eq!(next.index, id.index);
    assert_eq!(worker.taken.receive(worker.now, id, Part::Last), Progress::None);
    assert_eq!((worker.taken.cancel(id), worker.taken.asker(id)), (None, None));
    assert_eq!(worker.held(), 1);
}

#[test]
fn rt21_what_is_refused_or_was_taken_in_an_ended_membership_settles_as_well() {
    let mut worker = Worker::new();
    let arrived = worker.arrives();
    worker.taken.refuse(arrived);
    assert_eq!(worker.held(), 0);
    assert_eq!(worker.taken.arrive(worker.now, HERE, worker.given, false), None, "it is not new");
    assert_eq!(worker.taken.arrive(worker.now, HERE, worker.given + 1, true), None, "a probe");
    assert_eq!(worker.taken.arrive(worker.now, MembershipId(4), 1, false), None, "nobody's");
    worker.given += 1;
    let (whole, claim) = (worker.whole(0), worker.claim(0));
    worker.taken.leave(HERE);
    let session = worker.knows(claim);
    assert_eq!(worker.taken.answer(worker.now, whole, true), Answered::Left(701));
    assert_eq!(worker.taken.receive(worker.now, claim, Part::Last), Progress::Run);
    assert_eq!(worker.taken.answer(worker.now, claim, true), Answered::Kept(session));
}
