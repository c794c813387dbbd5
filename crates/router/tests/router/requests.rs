//! What becomes of requests: order, priorities, ages, the bound of the queue, the hold.

use std::time::Duration;

use petasos_base::Time;
use petasos_router::{Admission, Affinity, Config, Hold, Output, Refusal, Request};

use crate::support::{Bench, ms};

fn urgent(token: u32, priority: u8) -> Request<u32> {
    Request { priority, ..Request::new(token) }
}

#[test]
fn requests_go_by_priority_and_then_in_order() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    for (token, priority) in [(1, 12), (2, 13), (3, 13), (4, 15), (5, 12)] {
        bench.request(urgent(token, priority));
    }
    let mut order = bench.tokens();
    for served in 1..5 {
        bench.tell(workers[0], served, served, 1);
        order.extend(bench.tokens());
    }
    assert_eq!(order, [4, 2, 3, 1, 5]);
}

/// Who names a greater one gains nothing, also where a full queue is to make room.
#[test]
fn rt24_priorities_above_the_bound_count_as_that() {
    let config = Config { priority_max: 3, waiting_max: 4, ..Config::default() };
    let (mut bench, workers) = Bench::with_workers(&config, &[1]);
    bench.requests([0]);
    let mut order = bench.tokens();
    for (token, priority) in [(1, 2), (2, 3), (3, 15), (4, 3)] {
        bench.request(urgent(token, priority));
    }
    let offer =
        |bench: &mut Bench, token| bench.router.handle_request(bench.now, urgent(token, 15));
    assert_eq!(offer(&mut bench, 5), Admission::Displaced(1));
    assert_eq!(offer(&mut bench, 6), Admission::Refused(6, Refusal::Full));
    for served in 1..5 {
        bench.tell(workers[0], served, served, 1);
        order.extend(bench.tokens());
    }
    assert_eq!(order, [0, 2, 3, 4, 5]);
}

#[test]
fn a_full_queue_drops_the_least_urgent_and_certainly_no_request_that_has_run() {
    let config = Config { waiting_max: 2, ..Config::default() };
    let (mut bench, workers) = Bench::with_workers(&config, &[1]);
    bench.requests([0]);
    assert_eq!(bench.tokens(), [0]);
    bench.request(urgent(1, 8));
    bench.request(urgent(2, 8));
    let now = bench.now;
    let mut offer = |token, priority| bench.router.handle_request(now, urgent(token, priority));
    assert_eq!(offer(3, 8), Admission::Refused(3, Refusal::Full));
    assert_eq!(offer(4, 9), Admission::Displaced(2));
    assert_eq!(offer(5, 9), Admission::Displaced(1));
    assert_eq!(offer(6, 9), Admission::Refused(6, Refusal::Full));
    bench.tell(workers[0], 1, 1, 9);
    assert_eq!(bench.tokens(), [4, 5]);
    assert_eq!(bench.router.counts().overflowed, 4);
}

#[test]
fn old_requests_are_dropped_and_not_given() {
    let waiting_age_max = Some(Duration::from_millis(10));
    let config = Config { waiting_age_max, liveness: None, ..Config::default() };
    let (mut bench, workers) = Bench::with_workers(&config, &[1]);
    bench.requests([0]);
    assert_eq!(bench.tokens(), [0]);
    bench.requests([1]);
    bench.request(Request { expires: ms(4), ..Request::new(2) });
    bench.pass(ms(3));
    bench.requests([3]);
    assert_eq!((bench.outputs(), bench.router.next_timeout()), (vec![], ms(10)));
    bench.pass(ms(10));
    // The second was behind the first: it is dropped later than it might be, but never given.
    let (aged, expired) = (Refusal::Aged, Refusal::Expired);
    assert_eq!(bench.outputs(), [Output::Dropped(1, aged), Output::Dropped(2, expired)]);
    assert_eq!(bench.router.next_timeout(), ms(13));
    bench.pass(ms(12));
    bench.tell(workers[0], 1, 1, 1);
    assert_eq!(bench.tokens(), [3]);
    let late = Request { expires: ms(12), ..Request::new(4) };
    let refused = bench.router.handle_request(bench.now, late);
    assert_eq!(refused, Admission::Refused(4, Refusal::Expired));
    assert_eq!((bench.router.counts().expired, bench.router.counts().aged), (2, 1));
}

#[test]
fn requests_for_the_primary_wait_for_it_and_keep_nobody_waiting() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1, 1]);
    let write = |token| Request { affinity: Affinity::Primary, ..Request::new(token) };
    let refused = bench.router.handle_request(bench.now, write(9));
    assert_eq!(refused, Admission::Refused(9, Refusal::Nobody), "nobody is the primary");
    assert!(bench.router.set_primary(Some(workers[0])));
    bench.request(write(1));
    bench.request(write(2));
    bench.requests([3, 4]);
    let given: Vec<_> = bench.given().iter().map(|given| (given.token, given.worker)).collect();
    assert_eq!(given, [(1, workers[0]), (3, workers[1])]);
    bench.tell(workers[0], 1, 1, 1);
    assert_eq!(bench.tokens(), [2], "it came before the fourth");
    bench.tell(workers[0], 2, 2, 1);
    let given: Vec<_> = bench.given().iter().map(|given| (given.token, given.worker)).collect();
    assert_eq!(given, [(4, workers[0])], "the primary gets others, too");
}

#[test]
fn a_few_requests_are_held_for_an_idle_worker() {
    let hold = Hold { requests_max: 2, time: Duration::from_millis(5) };
    let config = Config { hold: Some(hold), liveness: None, ..Config::default() };
    let (mut bench, workers) = Bench::with_workers(&config, &[3, 3]);
    bench.requests([1, 2, 3, 4]);
    assert_eq!(bench.tokens(), [1, 2], "one for each idle worker; two are held");
    assert_eq!(bench.router.next_timeout(), ms(5));
    bench.pass(ms(1));
    bench.requests([5]);
    assert_eq!(bench.tokens(), [3], "no more than two are held");
    bench.tell(workers[0], 1, 1, 3);
    let others = bench.tokens();
    // The third went to one of the two. If it went to this one, that is not idle.
    assert_eq!(others.is_empty(), bench.outstanding(workers[0]) == 1 && others != [4]);
    bench.pass(ms(6));
    let rest: Vec<_> = others.into_iter().chain(bench.tokens()).collect();
    assert_eq!(rest, [4, 5], "nor longer than five milliseconds");
    assert_eq!(bench.router.waiting(), 0);
}

#[test]
fn nothing_is_due_in_a_router_without_work() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    assert_eq!(bench.router.next_timeout(), Time::NEVER);
    bench.router.drain(workers[0], true);
    let refused = bench.router.handle_request(bench.now, Request::new(1));
    assert_eq!(refused, Admission::Refused(1, Refusal::Nobody), "all drain");
    assert_eq!(bench.router.counts().unwanted, 1);
}

#[test]
fn requests_for_a_busy_primary_leave_others_half_of_the_queue() {
    let config = Config { waiting_max: 4, ..Config::default() };
    let (mut bench, workers) = Bench::with_workers(&config, &[1, 1]);
    assert!(bench.router.set_primary(Some(workers[0])));
    let write = |token| Request { affinity: Affinity::Primary, ..Request::new(token) };
    bench.request(write(0));
    assert_eq!(bench.tokens(), [0]);
    (1..3).for_each(|token| bench.request(write(token)));
    let refused = bench.router.handle_request(bench.now, write(3));
    assert_eq!(refused, Admission::Refused(3, Refusal::Full));
    assert_eq!(bench.route(4), Ok(workers[1]));
    // Whatever the policy, and also while all are busy.
    bench.request(Request { affinity: Affinity::Key(7), ..Request::new(5) });
    assert_eq!(bench.route(6), Err(Admission::Admitted));
    assert!(matches!(bench.route(7), Err(Admission::Refused(7, Refusal::Full))));
    bench.tell(workers[1], 1, 1, 2);
    assert_eq!(bench.tokens(), [5, 6]);
    bench.tell(workers[0], 1, 1, 1);
    // What can be given now goes first.
    assert!(bench.route(8).is_err());
    assert_eq!(bench.tokens(), [1]);
}

#[test]
fn without_a_setting_requests_wait_for_a_second() {
    let config = Config { liveness: None, ..Config::default() };
    let (mut bench, _) = Bench::with_workers(&config, &[1]);
    bench.requests([0]);
    assert_eq!(bench.tokens(), [0]);
    bench.requests([1]);
    assert_eq!(bench.router.next_timeout(), ms(1000));
    bench.pass(ms(999));
    assert_eq!(bench.outputs(), []);
    bench.pass(ms(1000));
    assert_eq!(bench.outputs(), [Output::Dropped(1, Refusal::Aged)]);
}

#[test]
fn what_waits_goes_back_when_the_last_who_would_take_it_goes() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1, 1]);
    assert!(bench.router.set_primary(Some(workers[0])));
    bench.requests([0, 1]);
    assert_eq!(bench.given().len(), 2);
    bench.request(Request { affinity: Affinity::Primary, ..Request::new(2) });
    bench.requests([3]);
    assert_eq!(bench.outputs(), []);
    assert!(bench.router.handle_end(workers[0]).is_some());
    let unwanted = |token| Output::Dropped(token, Refusal::Nobody);
    assert_eq!(bench.outputs(), [unwanted(2)], "the other worker takes the other request");
    bench.tell(workers[1], 0, 1, 0);
    assert_eq!(bench.outputs(), [unwanted(3)], "it drains");
    assert_eq!((bench.router.waiting(), bench.router.counts().unwanted), (0, 2));
}

#[test]
fn a_silent_worker_is_waited_for() {
    let (mut bench, workers) = Bench::with_workers(&Config::default(), &[1]);
    bench.router.handle_disconnect(bench.now, workers[0]);
    bench.requests([0]);
    assert_eq!(bench.outputs(), []);
    bench.tell(workers[0], 0, 0, 1);
    assert_eq!(bench.tokens(), [0]);
}
