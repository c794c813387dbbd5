//! What it takes to make the plans of a schema of 50 messages, as a program does on first use and
//! a service for each application that binds.
//!
//! `cargo run --release -p petasos-message --example plan_cost`

use std::fmt::Write;
use std::hint::black_box;

use petasos_base::Clock;
use petasos_message::Plans;
use petasos_schema::Schema;

#[path = "../../schema/tests/common/mod.rs"]
mod common;

const MESSAGES: usize = 50;
const ROUNDS: usize = 200;

/// Twelve fields each: numbers, strings, lists, maps, a oneof, and other messages.
fn schema() -> Schema {
    let mut text = String::from("enum E { Z = 0; } ");
    for at in 0..MESSAGES {
        let (next, other) = ((at + 1) % MESSAGES, (at * 7 + 3) % MESSAGES);
        write!(
            text,
            "message M{at} {{ string id = 1; int64 count = 2; M{next} next = 3; \
             repeated M{other} parts = 4; bytes body = 5; optional uint32 limit = 6; \
             repeated double values = 7; map<string, M{other}> named = 8; E level = 9; \
             oneof origin {{ string email = 10; M{next} place = 11; bool none = 12; }} }} "
        )
        .expect("a string takes all");
    }
    common::schema(&text)
}

/// The best of some rounds, in µs.
fn time<T>(clock: &Clock, what: &str, mut work: impl FnMut() -> T) {
    let mut best = u64::MAX;
    for _ in 0..ROUNDS {
        let start = clock.now();
        black_box(work());
        best = best.min(clock.now().as_nanos() - start.as_nanos());
    }
    println!("{what:40} {:7.1} µs", best as f64 / 1e3);
}

fn main() {
    let (clock, schema) = (Clock::system(), schema());
    let compact = schema.clone().without_sources().encode();
    let plans = Plans::of(&schema).expect("few fields");
    println!("{MESSAGES} messages, plans of {} bytes", plans.footprint_bytes());
    time(&clock, "layouts", || petasos_schema::Layouts::of(&schema));
    time(&clock, "plans", || Plans::of(&schema));
    time(&clock, "the schema from its compact form", || {
        Schema::decode(&compact, &Default::default())
    });
}
