//! The latency of M/G/1 by numbers: a wait is a geometric sum of residual service times (Beneš),
//! whose distribution a recursion over a grid gives (Panjer, 1981). It shares nothing with the
//! simulator.

use petasos_queueing::Service;

/// Points of the grid per mean service time.
const STEPS: usize = 200;
/// The grid's end, in mean service times.
const END: usize = 60;

/// The part of service times above `time`.
fn service_above(service: Service, time: f64) -> f64 {
    match service {
        Service::Exponential => (-time).exp(),
        _ => service.values().iter().filter(|(value, _)| *value > time).map(|(_, part)| part).sum(),
    }
}

/// The probabilities that a residual service time is in a step of the grid: its density is the part
/// of service times above it. Each step's mass is divided between its ends so that the mean is
/// right.
fn residuals(service: Service) -> Vec<f64> {
    let parts = 100;
    let width = 1.0 / (STEPS * parts) as f64;
    let mut masses = vec![0.0; STEPS * END];
    for index in 0..(STEPS * END - 1) * parts {
        let mass = service_above(service, (index as f64 + 0.5) * width) * width;
        let to_next = ((index % parts) as f64 + 0.5) / parts as f64;
        masses[index / parts] += mass * (1.0 - to_next);
        masses[index / parts + 1] += mass * to_next;
    }
    masses
}

/// The time that this part of latencies exceeds.
pub fn latency_quantile(service: Service, load: f64, above: f64) -> f64 {
    let residuals = residuals(service);
    let mut waits = vec![(1.0 - load) / (1.0 - load * residuals[0])];
    for at in 1..residuals.len() {
        let sum: f64 = (1..=at).map(|step| residuals[step] * waits[at - step]).sum();
        waits.push(load * sum / (1.0 - load * residuals[0]));
    }
    let exceeds = |time: f64| {
        let grid = waits.iter().enumerate();
        let of = |(at, mass): (usize, &f64)| {
            let rest = time - at as f64 / STEPS as f64;
            mass * if rest < 0.0 { 1.0 } else { service_above(service, rest) }
        };
        grid.map(of).sum::<f64>() > above
    };
    let (mut low, mut high) = (0.0, END as f64);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if exceeds(middle) { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}
