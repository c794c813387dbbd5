//! The simulator against what is known. Differences are compared with the errors that it tells:
//! four of them are exceeded once in 16,000 times, and seeds are fixed.

use petasos_queueing::{Effort, Estimate, Latency, Model, Service, simulate, theory};

mod compound;

fn model(service: Service, policy: &str, workers: usize, load: f64) -> Model {
    let discipline = policy.parse().expect("it is a policy");
    Model { service, discipline, workers, load, delay: 0.0, hold: 0.0 }
}

fn run(model: &Model, requests: u64) -> Latency {
    let latency = simulate(model, &Effort::requests(requests, 11)).expect("it is right");
    latency.expect("the workers can keep up")
}

/// The estimate is as precise as this, relative to the value, and near it.
fn expect(estimate: Estimate, value: f64, precision: f64, what: &str) {
    let (off, stderr) = ((estimate.value - value).abs(), estimate.stderr);
    assert!(stderr <= precision * value, "{what}: {estimate:?} for {value}");
    // What is exact has rounding errors.
    assert!(off <= 4.0 * stderr + 1e-4 * value, "{what}: {estimate:?} for {value}");
}

#[test]
fn many_servers_with_one_queue_are_as_erlang_has_it() {
    for (workers, load, precision) in
        [(1, 0.3, 0.002), (1, 0.8, 0.01), (2, 0.9, 0.02), (16, 0.5, 0.001), (16, 0.9, 0.012)]
    {
        let model = model(Service::Exponential, "single", workers, load);
        let (latency, theory) = (run(&model, 1_000_000), theory(&model).expect("it is known"));
        let what = format!("M/M/{workers} at {load}");
        expect(latency.mean, theory.mean, precision, &what);
        expect(latency.p99, theory.p99.expect("it is known"), 2.0 * precision, &what);
    }
}

#[test]
fn one_server_is_as_pollaczek_and_khinchine_have_it() {
    for service in Service::ALL {
        for (load, precision) in [(0.3, 0.004), (0.8, 0.015)] {
            let model = model(service, "single", 1, load);
            let latency = run(&model, 600_000);
            let what = format!("{service} at {load}");
            expect(latency.mean, theory(&model).expect("it is known").mean, precision, &what);
            if service != Service::Exponential {
                let p99 = compound::latency_quantile(service, load, 0.01);
                expect(latency.p99, p99, 2.0 * precision, &what);
            }
        }
    }
}

#[test]
fn random_choices_make_workers_that_do_not_know_of_each_other() {
    for service in Service::ALL {
        let model = model(service, "random", 16, 0.7);
        let latency = run(&model, 600_000);
        expect(latency.mean, theory(&model).expect("it is known").mean, 0.01, service.name());
        let p99 = compound::latency_quantile(service, 0.7, 0.01);
        expect(latency.p99, p99, 0.02, service.name());
    }
}

/// How many of so many runs have the mean, and the 99th percentile, within their standard error.
fn within(model: &Model, runs: u64) -> (u32, u32) {
    let theory = theory(model).expect("it is known");
    let (mut means, mut p99s) = (0, 0);
    for seed in 0..runs {
        let latency = simulate(model, &Effort::requests(100_000, seed)).expect("it is right");
        let latency = latency.expect("the workers can keep up");
        let is_within =
            |estimate: Estimate, value: f64| (estimate.value - value).abs() < estimate.stderr;
        means += u32::from(is_within(latency.mean, theory.mean));
        p99s += u32::from(is_within(latency.p99, theory.p99.expect("it is known")));
    }
    (means, p99s)
}

#[test]
fn the_errors_are_what_they_say() {
    for model in [
        model(Service::Exponential, "random", 4, 0.7),
        model(Service::Exponential, "single", 8, 0.7),
    ] {
        let (means, p99s) = within(&model, 60);
        // 41 of 60, with a standard deviation of 3.6.
        for count in [means, p99s] {
            assert!((28..=54).contains(&count), "{model:?}: {means} and {p99s}");
        }
    }
}
