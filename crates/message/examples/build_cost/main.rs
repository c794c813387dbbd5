//! What building, sending and reading messages costs: the table of ADR 10.
//!
//! `cargo run --release -p petasos-message --example build_cost`. With an argument, the number of
//! repetitions, it builds that many features and prints nothing, to be counted by callgrind.
//!
//! `route.rs` is what codegen prints for `route.proto`.

mod route;

use std::hint::black_box;

use petasos_base::Clock;
use petasos_buf::MsgBuf;
use petasos_message::{Message, Msg, ROOM_BYTES, to_protobuf, validate, view_native};
use route::{Echo, Feature};

const NAME: &str = "Berkshire Valley Management Area Trail, Jefferson, NJ, USA";
const ROUNDS: usize = 7;
const REPETITIONS: u64 = 500_000;

#[inline(never)]
fn feature() -> Msg<Feature> {
    let mut feature = Feature::new();
    let mut edit = feature.edit();
    edit.set_name(NAME);
    edit.location_mut().set_latitude(409_146_138).set_longitude(-746_188_906);
    edit.tags_mut().push("trail").push("area");
    let mut path = edit.path_mut();
    path.add().set_latitude(1);
    path.add().set_longitude(2);
    feature
}

#[inline(never)]
fn echo(payload: &[u8]) -> Msg<Echo> {
    let mut echo = Echo::new();
    echo.edit().set_payload(payload);
    echo
}

/// The same in strings and vectors.
type Plain = (String, Option<(i32, i32)>, Vec<u8>, Vec<String>, Vec<(i32, i32)>);

#[inline(never)]
fn plain() -> Plain {
    let tags = vec!["trail".to_owned(), "area".to_owned()];
    let location = Some((409_146_138, -746_188_906));
    (NAME.to_owned(), location, Vec::new(), tags, vec![(1, 0), (0, 2)])
}

fn one_of_each(feature: &Feature) -> (usize, i32, usize, i32) {
    let latitude = feature.location().map_or(0, |point| point.latitude());
    (feature.name().len(), latitude, feature.tags()[1].len(), feature.path()[1].longitude())
}

/// The image of a message, at a multiple of 8: in a buffer of its own.
fn image<T: Message>(message: Msg<T>) -> MsgBuf {
    let buf = Msg::into_native(message).expect("small").into_buf();
    MsgBuf::from_slice(&buf.as_slice()[ROOM_BYTES..])
}

/// The best of some rounds, in ns.
fn time(clock: &Clock, what: &str, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = clock.now();
        (0..REPETITIONS).for_each(|_| work());
        let taken = clock.now().as_nanos() - start.as_nanos();
        best = best.min(taken as f64 / REPETITIONS as f64);
    }
    println!("{what:40} {best:7.1} ns");
}

fn main() {
    if let Some(count) = std::env::args().nth(1).and_then(|count| count.parse::<u64>().ok()) {
        (0..count).for_each(|_| drop(black_box(feature())));
        return;
    }
    let clock = Clock::system();
    let (features, echoes) = (image(feature()), image(echo(&[7; 32])));
    println!("images of {} and {} bytes", features.len(), echoes.len());
    time(&clock, "feature: build and drop", || drop(black_box(feature())));
    time(&clock, "feature: the same in String and Vec", || drop(black_box(plain())));
    time(&clock, "feature: build and hand over", || {
        drop(black_box(Msg::into_native(feature())));
    });
    time(&clock, "feature: validate", || {
        black_box(validate(Feature::plan(), black_box(&features))).expect("valid");
    });
    let built = feature();
    time(&clock, "feature: read one value of each field", || {
        black_box(one_of_each(black_box(&built)));
    });
    time(&clock, "feature: clone and drop", || drop(black_box(built.clone())));
    time(&clock, "feature: encode as protobuf", || drop(black_box(to_protobuf(&**built, 0))));
    let payload = [7; 32];
    time(&clock, "echo of 32 bytes: build and drop", || {
        drop(black_box(echo(black_box(&payload))));
    });
    time(&clock, "echo of 32 bytes: validate and view", || {
        black_box(view_native::<Echo>(black_box(&echoes))).expect("valid");
    });
}
