//! Services that are right, or wrong in one way, and clients that call them at random.

pub mod counters;
pub mod etcd;
pub mod registers;
pub mod sequences;
pub mod world;

use petasos_base::Rng;

/// One of a few keys.
pub fn key(rng: &mut Rng, keys: u64) -> petasos_history::Bytes {
    let number = rng.below(keys);
    format!("k{number}").as_str().into()
}
