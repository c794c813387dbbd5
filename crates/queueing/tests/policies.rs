//! What policies do, compared with each other: with the same seed, all of them see the same
//! requests.

use petasos_queueing::{Effort, Latency, Model, ModelError, Service, simulate, simulate_all};

fn model(service: Service, policy: &str, load: f64, delay: f64) -> Model {
    let discipline = policy.parse().expect("it is a policy");
    Model { service, discipline, workers: 16, load, delay, hold: 0.0 }
}

fn run(model: &Model) -> Option<Latency> {
    simulate(model, &Effort::requests(200_000, 3)).expect("it is right")
}

fn p99(service: Service, policy: &str, load: f64) -> f64 {
    run(&model(service, policy, load, 0.0)).expect("the workers can keep up").p99.value
}

#[test]
fn what_is_the_same_is_exactly_the_same() {
    for (one, other) in [("jbsq1", "single"), ("jbsq4095", "jsq")] {
        let of = |policy| run(&model(Service::Bimodal1, policy, 0.8, 0.0));
        assert_eq!(of(one), of(other), "{one} and {other}");
    }
}

#[test]
fn policies_are_in_the_order_of_what_they_know() {
    let of = |policy| p99(Service::Exponential, policy, 0.85);
    let order = ["single", "jbsq2", "jsq", "pl2", "rr", "random"].map(of);
    assert!(order.is_sorted(), "{order:?}");
    assert!(order[5] > 3.5 * order[1], "{order:?}");
    // More variable service times: bounded queues are better than short ones.
    let [jbsq, jsq] = ["jbsq2", "jsq"].map(|policy| p99(Service::Bimodal1, policy, 0.9));
    assert!(jbsq < jsq, "{jbsq} and {jsq}");
}

#[test]
fn a_bound_that_is_too_small_for_the_delay_leaves_workers_idle() {
    // A worker has a request in each 1 + 1.5, then in each of the same time two or three.
    let keeps_up = |policy, load| run(&model(Service::Deterministic, policy, load, 1.5)).is_some();
    assert!(keeps_up("jbsq1", 0.38) && !keeps_up("jbsq1", 0.45));
    assert!(keeps_up("jbsq2", 0.75) && !keeps_up("jbsq2", 0.85));
    assert!(keeps_up("jbsq3", 0.95));
}

#[test]
fn what_a_bound_and_a_delay_allow_is_what_mean_value_analysis_says() {
    // Tokens that go round between a worker and a delay of 1.5: a closed network, whose throughput
    // does not depend on the distribution of the delay.
    let capacity = |tokens: u32| {
        let step = |(_, queue): (f64, f64), tokens: u32| {
            let throughput = f64::from(tokens) / (1.0 + queue + 1.5);
            (throughput, throughput * (1.0 + queue))
        };
        (1..=tokens).fold((0.0, 0.0), step).0
    };
    let keeps_up = |policy, load| run(&model(Service::Exponential, policy, load, 1.5)).is_some();
    for (policy, tokens) in [("jbsq1", 1), ("jbsq2", 2), ("jbsq3", 3)] {
        let capacity = capacity(tokens);
        assert!(keeps_up(policy, 0.93 * capacity), "{policy}: {capacity}");
        assert!(!keeps_up(policy, 1.07 * capacity), "{policy}: {capacity}");
    }
}

#[test]
fn a_delay_does_not_matter_to_those_who_do_not_listen() {
    for policy in ["random", "rr", "single"] {
        let of =
            |delay| run(&model(Service::Exponential, policy, 0.7, delay)).expect("it keeps up");
        let (near, far) = (of(0.0), of(3.0));
        for (near, far) in [(near.mean, far.mean), (near.p99, far.p99)] {
            let off = far.value - near.value - 1.5;
            assert!(off.abs() < 4.0 * near.stderr, "{policy}: {near:?} {far:?}");
        }
    }
}

#[test]
fn a_hold_brings_bounded_queues_nearer_to_one_queue() {
    let model = model(Service::Exponential, "jbsq3", 0.8, 0.0);
    let held = Model { hold: 0.2, ..model.clone() };
    let [without, with] = [&model, &held].map(|model| run(model).expect("it keeps up").p99);
    assert!(with.value + 4.0 * with.stderr < without.value, "{with:?} {without:?}");
}

#[test]
fn results_do_not_depend_on_threads_but_on_seeds() {
    let models: Vec<Model> = ["random", "pl2", "jbsq3"]
        .into_iter()
        .flat_map(|policy| [0.3, 0.6].map(|load| model(Service::Bimodal2, policy, load, 0.5)))
        .collect();
    let mut told = Vec::new();
    let effort = Effort::requests(64_000, 5);
    let one = simulate_all(&models, &effort, 1, |done| told.push(done)).expect("they are right");
    assert_eq!(told, [1, 2, 3, 4, 5, 6]);
    let three = simulate_all(&models, &effort, 3, |_| ()).expect("they are right");
    assert_eq!(one, three);
    let other = Effort::requests(64_000, 6);
    assert_ne!(one, simulate_all(&models, &other, 1, |_| ()).expect("they are right"));
    assert_eq!(simulate_all(&[], &effort, 4, |_| ()), Ok(vec![]));
}

#[test]
fn runs_go_on_until_they_are_precise() {
    let precision = 0.01;
    let effort = Effort { precision, requests_min: 64_000, ..Effort::default() };
    let model = model(Service::Exponential, "jsq", 0.85, 0.0);
    let latency = simulate(&model, &effort).expect("it is right").expect("it keeps up");
    assert!(latency.p99.stderr <= precision * latency.p99.value);
    assert!(latency.mean.stderr <= precision / 2.0 * latency.mean.value);
    assert!(latency.requests < 10_000_000, "{latency:?}");
}

#[test]
fn too_few_requests_to_know_the_errors_are_told() {
    let at = |load, requests| {
        let model = model(Service::Exponential, "jsq", load, 0.0);
        let effort = Effort::requests(requests, 3);
        let latency = simulate(&model, &effort).expect("it is right").expect("it keeps up");
        latency.errors_are_known
    };
    assert!(at(0.5, 200_000) && !at(0.9, 200_000) && at(0.9, 4_500_000));
    // A run that goes on until it is precise has long parts from the beginning.
    let effort = Effort { precision: 0.1, requests_min: 64_000, ..Effort::default() };
    let model = model(Service::Exponential, "jsq", 0.9, 0.0);
    let latency = simulate(&model, &effort).expect("it is right").expect("it keeps up");
    assert!(latency.errors_are_known);
}

#[test]
fn what_takes_ages_before_there_is_a_result_is_refused() {
    let model = model(Service::Exponential, "single", 0.998, 0.0);
    let refused = simulate(&model, &Effort::default());
    assert!(matches!(refused, Err(ModelError::TooLong { .. })), "{refused:?}");
}
