//! Lookups in a table that the processor's caches do not hold, beside the least that they cost: two
//! random lines of memory per key, of which the first says where the second is.
//!
//! `cargo run --release -p petasos-store --example lookups -- [ITEMS] [LOOKUPS]`
//!
//! The contenders take turns, and all look up the same keys. *Batched* has sixteen keys in flight,
//! and *floor* too; *single* looks up one after the other.

use std::hint::black_box;

use arrayvec::ArrayVec;
use petasos_base::sync::{AtomicU64, Ordering};
use petasos_base::{Clock, Rng, prefetch};
use petasos_store::{Config, Mode, Partition, Write};

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 32;
/// Keys that are in flight together.
const TOGETHER: usize = 16;
const ROUNDS: usize = 7;

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn filled(items: u64) -> Partition {
    let config = Config::for_items(Mode::Store, items, KEY_BYTES as u64, VALUE_BYTES as u64);
    let mut partitions = config.partitions().expect("a table can be so large");
    let mut table = partitions.pop().expect("it has one partition");
    for number in 0..items {
        let bytes = key(number);
        let key = table.key(&bytes).expect("it has an allowed length");
        let value = [number as u8; VALUE_BYTES];
        table.set(0, &key, &Write { value: &value, ..Write::default() }).expect("there is room");
    }
    table
}

/// Lines that lead to lines.
struct Floor {
    first: Vec<[AtomicU64; 8]>,
    second: Vec<[AtomicU64; 8]>,
}

impl Floor {
    /// As many lines as the table has.
    fn new(items: u64) -> Floor {
        let mut rng = Rng::new(1);
        let lines = |count: u64, rng: &mut Rng, below: u64| -> Vec<[AtomicU64; 8]> {
            (0..count).map(|_| core::array::from_fn(|_| AtomicU64::new(rng.below(below)))).collect()
        };
        let (first, second) = (items.div_ceil(4), items * 72 / 64);
        Floor { first: lines(first, &mut rng, second), second: lines(second, &mut rng, 256) }
    }

    fn run(&self, numbers: &[u64]) -> u64 {
        let first = |number: &u64| &self.first[(*number % self.first.len() as u64) as usize];
        let second = |line: &[AtomicU64; 8]| &self.second[line[3].load(Ordering::Relaxed) as usize];
        let mut sum = 0;
        for chunk in numbers.chunks(TOGETHER) {
            chunk.iter().for_each(|number| prefetch(first(number)));
            chunk.iter().for_each(|number| prefetch(second(first(number))));
            sum += chunk.iter().map(|n| second(first(n))[2].load(Ordering::Relaxed)).sum::<u64>();
        }
        sum
    }
}

fn batched(table: &mut Partition, numbers: &[u64]) -> u64 {
    let mut sum = 0;
    for chunk in numbers.chunks(TOGETHER) {
        let bytes: ArrayVec<_, TOGETHER> = chunk.iter().map(|number| key(*number)).collect();
        let hashed = bytes.iter().map(|bytes| table.key(bytes).expect("it is a key"));
        let keys: ArrayVec<_, TOGETHER> = hashed.collect();
        table.get_many(0, &keys, |_, item| {
            let mut value = [0; VALUE_BYTES];
            item.expect("it is there").copy_to(&mut value);
            sum += u64::from(value[0]);
        });
    }
    sum
}

fn single(table: &mut Partition, numbers: &[u64]) -> u64 {
    let value_of = |number: &u64| {
        let bytes = key(*number);
        let key = table.key(&bytes).expect("it is a key");
        let mut value = [0; VALUE_BYTES];
        table.get(0, &key).expect("it is there").copy_to(&mut value);
        u64::from(value[0])
    };
    numbers.iter().map(value_of).sum()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>());
    let mut number = |usual| numbers.next().map_or(usual, |number| number.expect("a number"));
    let (items, lookups) = (number(8_000_000).max(1), number(2_000_000).max(1));
    let (clock, mut rng) = (Clock::system(), Rng::new(7));
    let (mut table, floor) = (filled(items), Floor::new(items));
    let [mut floors, mut batches, mut singles] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let numbers: Vec<u64> = (0..lookups).map(|_| rng.below(items)).collect();
        let time = |run: &mut dyn FnMut() -> u64| {
            let begun = clock.now();
            black_box(run());
            (clock.now() - begun).as_nanos() as f64 / lookups as f64
        };
        floors.push(time(&mut || floor.run(&numbers)));
        batches.push(time(&mut || batched(&mut table, &numbers)));
        singles.push(time(&mut || single(&mut table, &numbers)));
    }
    let ratios = |of: &[f64], to: &[f64]| median(of.iter().zip(to).map(|(a, b)| a / b).collect());
    let bytes = table.items_bytes().expect("it is a store");
    println!("{items} items of {KEY_BYTES} + {VALUE_BYTES} bytes, {bytes} bytes of log in use");
    println!("floor    {:6.1} ns per key", median(floors.clone()));
    println!("batched  {:6.1} ns per key", median(batches.clone()));
    println!("single   {:6.1} ns per key", median(singles.clone()));
    println!("batched reaches {:.2} of the floor's rate", ratios(&floors, &batches));
    println!("batched is {:.2} times as fast as single", ratios(&singles, &batches));
}
