//! Many models on several threads.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

use crate::model::{Model, ModelError};
use crate::simulate::{Effort, Latency, check, simulate};

/// More threads than any machine has processors for.
const THREADS_MAX: usize = 1024;

/// Simulates all models. `progress` is told how many are done after each, on the caller's thread.
/// The results are in the order of the models, and do not depend on the number of threads.
///
/// # Errors
/// If a model is wrong; nothing is simulated then.
pub fn simulate_all(
    models: &[Model],
    effort: &Effort,
    threads: usize,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Option<Latency>>, ModelError> {
    models.iter().try_for_each(|model| check(model, effort))?;
    // The most expensive first, so that no thread is left with one at the end.
    let mut order: Vec<usize> = (0..models.len()).collect();
    order.sort_by(|a, b| models[*a].load.total_cmp(&models[*b].load));
    let (order, (sender, results)) = (Mutex::new(order), channel());
    let next = || order.lock().expect("no thread panics with it").pop();
    let mut latencies = vec![None; models.len()];
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, models.len().clamp(1, THREADS_MAX)) {
            let sender = sender.clone();
            let (next, models) = (&next, &models);
            scope.spawn(move || {
                while let Some(index) = next() {
                    let latency = simulate(&models[index], effort).expect("models are checked");
                    if sender.send((index, latency)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (done, (index, latency)) in results.iter().enumerate() {
            latencies[index] = latency;
            progress(done + 1);
        }
    });
    Ok(latencies)
}
