//! Who gets a request.

use std::collections::HashMap;
use std::time::Duration;

use petasos_router::{
    Adjustment, Admission, Affinity, Bound, Config, Keys, Output, Policy, Refusal, Request, Rule,
    WorkerId,
};

use crate::support::{Bench, ms};

fn config(policy: &str) -> Config {
    Config { policy: policy.parse().expect("it is a policy"), ..Config::default() }
}

/// More than any test asks of a worker.
const MANY: u16 = 4095;

/// How many of so many requests each worker gets, none of which is served.
fn shares(bench: &mut Bench, requests: u32) -> HashMap<WorkerId, u32> {
    bench.requests(0..requests);
    let mut shares = HashMap::new();
    for given in bench.given() {
        *shares.entry(given.worker).or_insert(0) += 1;
    }
    shares
}

#[test]
fn round_robin_takes_turns_by_weight() {
    let mut bench = Bench::new(&config("rr"));
    let (full, half) = (bench.join(MANY, 100), bench.join(MANY, 50));
    let shares = shares(&mut bench, 300);
    assert_eq!((shares[&full], shares[&half]), (200, 100));
}

#[test]
fn random_choices_follow_the_weights() {
    let mut bench = Bench::new(&config("random"));
    let (full, half) = (bench.join(MANY, 100), bench.join(MANY, 50));
    let shares = shares(&mut bench, 3000);
    // The standard deviation is 26.
    assert!((1870..2130).contains(&shares[&full]), "{shares:?}");
    assert_eq!(shares[&full] + shares[&half], 3000);
}

#[test]
fn two_choices_are_more_even_than_one() {
    let spread = |policy| {
        let (mut bench, workers) = Bench::with_workers(&config(policy), &[MANY; 64]);
        let shares = shares(&mut bench, 6400);
        let of = |worker| shares.get(worker).copied().unwrap_or(0);
        workers.iter().map(of).max().unwrap() - workers.iter().map(of).min().unwrap()
    };
    let [one, two, all] = ["random", "pl2", "jsq"].map(spread);
    // With one choice about 45, with two 5: log log 64 and some.
    assert!(one > 25 && two <= 8 && all == 0, "{one} {two} {all}");
}

#[test]
fn the_shortest_queue_is_joined_and_ties_are_broken_at_random() {
    let (mut bench, workers) = Bench::with_workers(&config("jbsq"), &[2; 16]);
    let mut firsts = HashMap::new();
    for round in 1..=1600 {
        bench.requests(0..16);
        let mut given: Vec<_> = bench.given().iter().map(|given| given.worker).collect();
        *firsts.entry(given[0]).or_insert(0) += 1;
        given.sort_by_key(|worker| worker.index());
        assert_eq!(given, workers, "each gets one before any gets two");
        workers.iter().for_each(|worker| bench.tell(*worker, round, round, 2));
    }
    // 100 each, with a standard deviation below 10.
    assert!(firsts.values().all(|count| (50..150).contains(count)), "{firsts:?}");
}

#[test]
fn nobody_gets_more_than_its_bound_and_all_slots_are_used() {
    let (mut bench, workers) = Bench::with_workers(&config("jbsq3"), &[1, 2, 3, 4]);
    let shares = shares(&mut bench, 100);
    let counts: Vec<_> = workers.iter().map(|worker| shares[worker]).collect();
    assert_eq!((counts, bench.router.waiting()), (vec![1, 2, 3, 3], 91));
    // Now less than it has: nothing until it has drained below that.
    bench.tell(workers[2], 0, 3, 1);
    for served in 1..=2 {
        bench.tell(workers[2], served, 3, 1);
        assert_eq!(bench.tokens(), []);
    }
    bench.tell(workers[2], 3, 3, 1);
    assert_eq!(bench.given().len(), 1);
    bench.tell(workers[2], 3, 3, 3);
    assert_eq!(bench.given().len(), 2);
}

#[test]
fn rt5_whatever_the_policy_a_worker_gets_no_more_than_it_announces() {
    for policy in ["random", "rr", "pl2", "jsq", "jbsq9"] {
        let (mut bench, workers) = Bench::with_workers(&config(policy), &[0, 1, 3]);
        let shares = shares(&mut bench, 10);
        let of = |worker| shares.get(worker).copied().unwrap_or(0);
        assert_eq!(workers.iter().map(of).collect::<Vec<_>>(), [0, 1, 3], "{policy}");
        assert_eq!(bench.router.waiting(), 6, "{policy}: the rest waits");
        bench.tell(workers[1], 1, 1, 0);
        assert_eq!(bench.tokens(), [], "{policy}: it drains");
        bench.tell(workers[2], 1, 3, 3);
        assert_eq!(bench.tokens(), [4], "{policy}: first come, first served");
    }
}

#[test]
fn workers_with_little_weight_get_little_while_others_are_free() {
    let mut bench = Bench::new(&config("jsq"));
    let (full, fifth) = (bench.join(MANY, 100), bench.join(MANY, 20));
    let shares = shares(&mut bench, 120);
    assert_eq!((shares[&full], shares[&fifth]), (100, 20));
}

#[test]
fn four_thousand_workers_have_each_their_request() {
    let policy = Policy { rule: Rule::ShortestQueue, bound: Bound::Announced };
    let config = Config { policy, workers_max: 4096, ..Config::default() };
    let (mut bench, _) = Bench::with_workers(&config, &[2; 4096]);
    for _ in 0..2 {
        let shares = shares(&mut bench, 4096);
        assert!(shares.len() == 4096);
    }
    assert!(shares(&mut bench, 1).is_empty(), "all have what they may have");
}

fn keyed(token: u32, key: u64) -> Request<u32> {
    Request { affinity: Affinity::Key(key), ..Request::new(token) }
}

#[test]
fn keys_have_their_workers_unless_these_have_too_much() {
    let keys = Keys { places: 64, excess_percent: 50, least: 1 };
    let config = Config { keys, ..config("jsq") };
    let (mut bench, workers) = Bench::with_workers(&config, &[MANY; 8]);
    let mut owners = HashMap::new();
    let mut counts = HashMap::<WorkerId, u64>::new();
    // One at a time, so that nobody has too much.
    for token in 0..1000 {
        let key = u64::from(token % 100);
        bench.request(keyed(token, key));
        let worker = bench.given()[0].worker;
        assert_eq!(*owners.entry(key).or_insert(worker), worker, "key {key}");
        let count = counts.entry(worker).or_default();
        *count += 1;
        let count = *count;
        bench.tell(worker, count, count, MANY);
    }
    assert!(counts.len() >= 6, "{counts:?}");
    // All for one key: the others help.
    (0..80).for_each(|token| bench.request(keyed(token, 7)));
    assert_eq!(bench.given().len(), 80);
    let most = workers.iter().map(|worker| bench.outstanding(*worker)).max();
    assert_eq!(most, Some(15), "half more than the average");
    assert_eq!(bench.outstanding(owners[&7]), 15);
}

#[test]
fn a_key_stays_with_a_worker_whose_feedback_is_late() {
    let keys = Keys { places: 64, excess_percent: 50, least: 2 };
    let config = Config { keys, ..config("jsq") };
    let (mut bench, workers) = Bench::with_workers(&config, &[MANY; 8]);
    let mut served = HashMap::<WorkerId, u64>::new();
    for key in 0..20 {
        (0..2).for_each(|token| bench.request(keyed(token, key)));
        let given = bench.given();
        let worker = given[0].worker;
        assert_eq!(given[1].worker, worker, "key {key}");
        let count = served.entry(worker).or_default();
        *count += 2;
        let count = *count;
        bench.tell(worker, count, count, MANY);
    }
    assert!(served.len() > 2, "{workers:?}");
}

#[test]
fn a_key_without_a_ring_goes_as_others_do() {
    let (mut bench, _) = Bench::with_workers(&config("jbsq"), &[1, 1]);
    (0..3).for_each(|token| bench.request(keyed(token, 7)));
    assert_eq!(bench.tokens(), [0, 1]);
}

#[test]
fn who_cannot_be_used_does_not_raise_what_a_key_may_have() {
    let keys = Keys { places: 64, excess_percent: 50, least: 1 };
    let config = Config { keys, liveness: None, ..config("jsq") };
    let (mut bench, workers) = Bench::with_workers(&config, &[MANY; 8]);
    (0..800).for_each(|token| bench.request(Request::new(token)));
    assert_eq!(bench.given().len(), 800);
    // Six keep a hundred each and cannot be used; two have served all.
    for worker in &workers[..6] {
        assert!(bench.router.handle_disconnect(bench.now, *worker));
    }
    for worker in &workers[6..] {
        bench.tell(*worker, 100, 100, MANY);
    }
    (0..20).for_each(|token| bench.request(keyed(token, 7)));
    assert_eq!(bench.given().len(), 20);
    let mut counts = [6, 7].map(|index| bench.outstanding(workers[index]));
    counts.sort_unstable();
    assert_eq!(counts, [5, 15], "half more than the average of the two");
    // One that is back counts again: half more than 140 thirds is enough for all of these.
    bench.tell(workers[0], 0, 100, MANY);
    (20..40).for_each(|token| bench.request(keyed(token, 7)));
    assert_eq!(bench.given().len(), 20);
    let most = [6, 7].map(|index| bench.outstanding(workers[index])).into_iter().max();
    assert_eq!(most, Some(35));
}

#[test]
fn another_policy_holds_for_what_comes_and_what_waits() {
    let (mut bench, workers) = Bench::with_workers(&config("jbsq3"), &[8, 8]);
    bench.requests(0..8);
    assert_eq!(bench.given().len(), 6);
    let adjusted = |policy: &str| Adjustment {
        policy: policy.parse().expect("it is a policy"),
        ..config("jsq").adjustment()
    };
    // Workers that have more than they may now get nothing until they have less.
    bench.router.adjust(adjusted("jbsq2")).expect("it is right");
    assert_eq!(bench.given(), []);
    bench.tell(workers[0], 1, 3, 8);
    assert_eq!(bench.given(), []);
    bench.tell(workers[0], 2, 3, 8);
    assert_eq!(bench.tokens(), [6]);
    // What waits goes at once if there is room now.
    bench.router.adjust(adjusted("rr")).expect("it is right");
    assert_eq!((bench.tokens(), bench.limit(workers[1])), (vec![7], 8));
    let wrong = Adjustment { waiting_max: 1, ..adjusted("rr") };
    let error = bench.router.adjust(wrong).expect_err("one may not wait alone");
    assert!(error.to_string().contains("waiting_max"), "{error}");
    assert_eq!(bench.router.config().policy.to_string(), "rr");
}

#[test]
fn less_room_displaces_nobody_and_ages_are_those_of_the_arrival() {
    let (mut bench, workers) = Bench::with_workers(&config("jsq"), &[1]);
    bench.requests(0..9);
    assert_eq!(bench.tokens(), [0]);
    let shorter = Adjustment { waiting_max: 4, ..config("jsq").adjustment() };
    bench.router.adjust(shorter).expect("it is right");
    let refused = bench.router.handle_request(bench.now, Request::new(9));
    assert_eq!((refused, bench.router.waiting()), (Admission::Refused(9, Refusal::Full), 8));
    bench.tell(workers[0], 1, 1, 6);
    assert_eq!(bench.tokens(), [1, 2, 3, 4, 5, 6]);
    let longer = Some(Duration::from_secs(3600));
    let patient = Adjustment { waiting_max: 9, waiting_age_max: longer, ..shorter };
    bench.router.adjust(patient).expect("it is right");
    bench.requests(10..12);
    bench.pass(ms(1001));
    let aged = [7, 8].map(|token| Output::Dropped(token, Refusal::Aged));
    // A probe is first: the worker says nothing.
    assert_eq!(bench.outputs()[1..], aged);
    assert_eq!(bench.router.waiting(), 2);
}
