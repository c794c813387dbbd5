//! What becomes of workers: probes, leases, drains, ejections, slow starts.

use std::time::Duration;

use petasos_router::{
    Affinity, Config, Ejection, Event, FeedbackError, GroupFull, Join, Output, Refusal, Request,
};

use crate::support::{Bench, feedback, ms};

const fn after(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

/// Time passes in steps of a millisecond.
fn stay(bench: &mut Bench, until_ms: u64) {
    let from = bench.now.as_nanos() / 1_000_000;
    (from + 1..=until_ms).for_each(|now| bench.pass(ms(now)));
}

/// The probes that are due.
fn probes(bench: &mut Bench) -> Vec<u64> {
    let number = |output| match output {
        Output::Probe { number, .. } => number,
        output => panic!("{output:?}"),
    };
    bench.outputs().into_iter().map(number).collect()
}

#[test]
fn a_worker_with_requests_that_says_nothing_is_asked_ever_less_often_and_is_silent_then() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[2, 0]);
    bench.requests(0..2);
    assert_eq!(bench.tokens(), [0, 1]);
    let mut asked = Vec::new();
    for now in 1..=100 {
        bench.pass(ms(now));
        asked.extend(probes(&mut bench).into_iter().map(|number| (now, number)));
    }
    // After 2 ms, then 4, 8, 16, 20 and so on; timers are up to an eighth of a millisecond late.
    assert_eq!(asked[..4], [(3, 3), (8, 4), (17, 5), (34, 6)]);
    assert_eq!(asked[4..], [(54, 7), (75, 8), (96, 9)]);
    let silent = Event::Silent { worker: workers[0], outstanding: 6 };
    assert_eq!(bench.events(), [silent], "the other has nothing to say");
    // It is there after all. One request was lost, and the other is at work.
    bench.tell(workers[0], 8, 9, 2);
    assert_eq!(bench.events(), [Event::Heard { worker: workers[0] }]);
    bench.requests(2..9);
    assert_eq!(bench.tokens(), [2]);
}

#[test]
fn a_worker_that_is_busy_for_long_is_asked_but_not_often() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    bench.requests(0..1);
    bench.tokens();
    let mut asked = Vec::new();
    for now in 1..=200 {
        bench.pass(ms(now));
        for number in probes(&mut bench) {
            asked.push(now);
            bench.tell(workers[0], number - 1, number, 1);
        }
    }
    assert!(asked.len() < 14 && bench.events().is_empty(), "{asked:?}");
    assert_eq!(bench.outstanding(workers[0]), 1);
}

#[test]
fn a_worker_without_a_connection_gets_nothing_until_it_is_heard_and_is_gone_if_it_is_not() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1, 1]);
    bench.router.set_primary(Some(workers[1]));
    bench.requests(0..2);
    assert_eq!(bench.given().len(), 2);
    for worker in &workers {
        assert!(bench.router.handle_disconnect(bench.now, *worker));
    }
    assert_eq!(bench.events().len(), 2);
    bench.pass(ms(1));
    bench.tell(workers[0], 1, 1, 1);
    assert_eq!(bench.events(), [Event::Heard { worker: workers[0] }]);
    bench.requests(2..4);
    assert_eq!(bench.tokens(), [2]);
    bench.pass(ms(30));
    bench.tell(workers[0], 2, 2, 1);
    bench.pass(ms(51));
    bench.outputs();
    let Some(Event::Gone { worker, outstanding }) = bench.router.poll_event() else {
        panic!("a lease has passed")
    };
    assert!(worker == workers[1] && outstanding >= 1);
    assert_eq!((bench.router.primary(), bench.router.counts().abandoned), (None, outstanding));
    let told = feedback(99, 1, 1, 1);
    let late = |bench: &mut Bench| bench.router.handle_feedback(bench.now, workers[1], &told);
    assert_eq!(late(&mut bench), Err(FeedbackError::Stranger));
    // Its successor in the same place is somebody else.
    let successor = bench.join(1, 100);
    assert_eq!(successor.index(), workers[1].index());
    assert_eq!(late(&mut bench), Err(FeedbackError::Stranger));
    assert_eq!(bench.router.handle_end(successor), Some(0));
    assert_eq!(bench.router.handle_end(successor), None, "it is no member");
}

#[test]
fn a_worker_drains_by_command_and_by_its_own_word() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1, 1]);
    bench.requests(0..2);
    assert_eq!(bench.given().len(), 2);
    assert!(bench.router.drain(workers[0], true));
    bench.tell(workers[1], 0, 1, 0);
    assert_eq!(bench.events(), []);
    bench.tell(workers[0], 1, 1, 1);
    bench.tell(workers[1], 1, 1, 0);
    bench.tell(workers[1], 1, 1, 0);
    let drained = workers.iter().map(|worker| Event::Drained { worker: *worker });
    assert_eq!(bench.events(), drained.collect::<Vec<_>>(), "once each");
    bench.router.drain(workers[0], false);
    bench.requests(2..4);
    assert_eq!(bench.tokens(), [2]);
    bench.tell(workers[1], 1, 1, 1);
    assert_eq!(bench.tokens(), [3]);
}

#[test]
fn rt36_a_new_worker_is_waited_for_until_clients_know_it() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[2]);
    assert!(bench.router.hold_back(workers[0], true));
    bench.requests(0..2);
    assert_eq!((bench.tokens(), bench.router.waiting()), (vec![], 2), "nobody is refused");
    assert!(bench.router.hold_back(workers[0], false));
    assert_eq!(bench.tokens(), [0, 1]);
    assert_eq!(bench.events(), []);
    // Of several, the others get what comes meanwhile.
    let second = bench.join(8, 100);
    bench.router.hold_back(second, true);
    bench.requests(2..4);
    assert_eq!(bench.tokens(), [], "the first is full");
    bench.tell(workers[0], 2, 2, 2);
    assert_eq!(bench.tokens(), [2, 3]);
    bench.router.handle_end(second);
    assert!(!bench.router.hold_back(second, false), "it is no member");
}

#[test]
fn a_worker_leaves_when_it_has_nothing_left() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[2]);
    bench.router.set_primary(Some(workers[0]));
    bench.requests(0..2);
    bench.given();
    bench.requests(2..3);
    assert!(bench.router.handle_leave(workers[0]));
    bench.tell(workers[0], 1, 2, 2);
    let unwanted = Output::Dropped(2, Refusal::Nobody);
    assert_eq!((bench.events(), bench.outputs()), (vec![], vec![unwanted]));
    bench.tell(workers[0], 2, 2, 2);
    assert_eq!(bench.events(), [Event::Left { worker: workers[0] }]);
    assert_eq!((bench.router.workers().count(), bench.router.primary()), (0, None));
    assert!(!bench.router.handle_leave(workers[0]), "it is no member");
}

#[test]
fn a_worker_that_fails_is_out_for_a_while_and_comes_back_slowly() {
    let ejection = Ejection { failures_min: 2, ..Ejection::default() };
    let slow_start = after(1000);
    let config = Config {
        ejection: Some(ejection),
        slow_start,
        liveness: None,
        waiting_age_max: None,
        ..Config::default()
    };
    let (mut bench, workers) = Bench::with_workers(&config, &[10, 10]);
    assert_eq!(workers.iter().map(|worker| bench.limit(*worker)).sum::<u16>(), 2);
    stay(&mut bench, 1001);
    assert_eq!(workers.iter().map(|worker| bench.limit(*worker)).sum::<u16>(), 20);
    bench.router.handle_failure(bench.now, workers[0], 2);
    let until = ms(2001);
    assert_eq!(bench.events(), [Event::Ejected { worker: workers[0], until }]);
    bench.router.handle_failure(bench.now, workers[1], 99);
    assert_eq!(bench.events(), [], "nobody else would be left");
    bench.requests(0..20);
    assert!(bench.given().iter().all(|given| given.worker == workers[1]));
    assert_eq!(bench.router.waiting(), 10);
    stay(&mut bench, 2002);
    assert_eq!(bench.events(), [Event::Restored { worker: workers[0] }]);
    assert_eq!(bench.given().len(), 1);
    stay(&mut bench, 2600);
    assert_eq!(bench.limit(workers[0]), 5);
    stay(&mut bench, 3100);
    assert_eq!(bench.limit(workers[0]), 10);
}

/// Three workers, two of which are ejected.
fn two_are_ejected() -> (Bench, Vec<petasos_router::WorkerId>) {
    let ejection = Ejection { failures_min: 1, ejected_max_percent: 100, ..Ejection::default() };
    let config = Config { ejection: Some(ejection), liveness: None, ..Config::default() };
    let (mut bench, workers) = Bench::with_workers(&config, &[1, 1, 1]);
    for worker in &workers[..2] {
        bench.router.handle_failure(bench.now, *worker, 9);
    }
    assert_eq!(bench.events().len(), 2);
    (bench, workers)
}

#[test]
fn those_who_are_ejected_come_back_when_nobody_else_is_left() {
    for way in 0..4 {
        let (mut bench, workers) = two_are_ejected();
        bench.requests(0..2);
        assert_eq!(bench.given().len(), 1, "the third has one");
        bench.tell(workers[2], 0, 1, 1);
        assert_eq!((bench.outputs(), bench.events()), (vec![], vec![]), "it is busy, not gone");
        match way {
            0 => _ = bench.router.handle_end(workers[2]),
            1 => _ = bench.router.handle_disconnect(bench.now, workers[2]),
            2 => _ = bench.router.drain(workers[2], true),
            _ => bench.tell(workers[2], 0, 1, 0),
        }
        assert_eq!(bench.tokens(), [1], "case {way}");
        let restored = |event: &&Event| matches!(event, Event::Restored { .. });
        assert_eq!(bench.events().iter().filter(restored).count(), 2);
    }
}

#[test]
fn the_primary_is_not_ejected_and_who_becomes_it_comes_back() {
    let (mut bench, workers) = two_are_ejected();
    assert!(bench.router.set_primary(Some(workers[2])));
    bench.router.handle_failure(bench.now, workers[2], 9);
    assert_eq!(bench.events(), []);
    assert!(bench.router.set_primary(Some(workers[1])));
    bench.request(Request { affinity: Affinity::Primary, ..Request::new(0) });
    assert_eq!(bench.tokens(), [0]);
    assert_eq!(bench.events(), [Event::Restored { worker: workers[1] }], "and the other is out");
}

#[test]
fn rt23_a_worker_that_is_silent_for_long_is_gone_whatever_its_connection() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    bench.requests(0..1);
    assert_eq!(bench.tokens(), [0]);
    let mut silent_at = None;
    for now in 1..=12_000 {
        bench.pass(ms(now));
        let asked = probes(&mut bench);
        for event in bench.events() {
            match event {
                Event::Silent { .. } => silent_at = Some(now),
                Event::Gone { worker, outstanding } => {
                    assert_eq!(worker, workers[0]);
                    assert!((450..550).contains(&outstanding), "it was asked to the end");
                    let silent_ms = now - silent_at.expect("it was silent before");
                    assert!((10_000..=10_021).contains(&silent_ms), "{silent_ms}");
                }
                event => panic!("{event:?}"),
            }
        }
        assert!(asked.is_empty() || bench.router.workers().count() == 1, "nobody is asked then");
    }
    assert_eq!((bench.router.workers().count(), bench.router.outstanding()), (0, 0));
    assert_eq!(bench.router.counts().abandoned, bench.router.counts().probes + 1);
}

#[test]
fn rt23_a_worker_that_is_heard_in_time_stays_and_has_its_time_again() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    bench.requests(0..1);
    assert_eq!(bench.tokens(), [0]);
    for now in 1..=25_000 {
        bench.pass(ms(now));
        probes(&mut bench);
        if now % 9000 == 0 {
            bench.tell(workers[0], 0, 0, 1);
        }
    }
    assert!(bench.events().iter().all(|event| !matches!(event, Event::Gone { .. })));
}

/// Its feedback arrives, and what it is given does not: it is not silent.
#[test]
fn rt23_a_worker_that_numbers_would_pass_by_is_gone() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    bench.requests(0..1);
    assert_eq!(bench.tokens(), [0]);
    for now in 1..200_000 {
        bench.pass(ms(now));
        bench.outputs();
        if now % 10 == 0 && bench.router.workers().count() == 1 {
            bench.tell(workers[0], 0, 0, 1);
        }
    }
    assert_eq!(bench.events(), [Event::Gone { worker: workers[0], outstanding: 8192 }]);
}

#[test]
fn a_group_has_so_many_places() {
    let config = Config { workers_max: 2, ..Config::default() };
    let (mut bench, _) = Bench::with_workers(&config, &[1, 1]);
    let join = Join { identity: 9, bound: 1, weight: 100 };
    assert_eq!(bench.router.handle_join(bench.now, join), Err(GroupFull));
}

#[test]
fn an_older_message_does_not_bring_an_older_bound_back() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[5]);
    let mut tell = |sequence, bound| {
        let told = feedback(sequence, 0, 0, bound);
        bench.router.handle_feedback(bench.now, workers[0], &told).expect("it is right");
        bench.router.worker(workers[0]).expect("it is a member").limit
    };
    assert_eq!((tell(2, 3), tell(1, 9), tell(2, 8), tell(3, 4)), (3, 3, 3, 4));
}

#[test]
fn a_worker_that_was_idle_for_long_has_a_lease_after_it_was_asked() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    stay(&mut bench, 900);
    bench.requests(0..1);
    assert_eq!(bench.tokens(), [0]);
    let mut asked = Vec::new();
    for now in 901..=940 {
        bench.pass(ms(now));
        asked.extend(probes(&mut bench));
    }
    assert!(asked.len() >= 2, "{asked:?}");
    assert_eq!(bench.events(), [], "a lease has not passed since");
    for now in 941..=960 {
        bench.pass(ms(now));
        probes(&mut bench);
    }
    let outstanding = bench.events();
    let is_silent =
        |event: &Event| matches!(event, Event::Silent { worker, .. } if *worker == workers[0]);
    assert!(outstanding.len() == 1 && outstanding.iter().all(is_silent), "{outstanding:?}");
}

#[test]
fn an_idle_worker_whose_connection_was_lost_is_asked_until_it_is_heard() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    stay(&mut bench, 10);
    bench.router.handle_disconnect(bench.now, workers[0]);
    bench.router.handle_reconnect(workers[0]);
    let mut asked = Vec::new();
    for now in 11..=60 {
        bench.pass(ms(now));
        asked.extend(probes(&mut bench));
    }
    let last = *asked.last().expect("it is asked");
    bench.tell(workers[0], last, last, 1);
    bench.requests(0..1);
    assert_eq!(bench.tokens(), [0]);
}
