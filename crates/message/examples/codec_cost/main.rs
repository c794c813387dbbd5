//! What protobuf costs: by plan, by prost, and by code that was written out for the type.
//!
//! `cargo run --release -p petasos-message --example codec_cost`. Ratios count; the machine is
//! rarely alone. With a direction, a codec, a message and a number (`decode plan small 1000`) it
//! repeats that alone and prints nothing, to be counted by callgrind; with `counts` it has valgrind
//! do so for everything, prints ADR 10's table, and fails if the plan is beyond what milestone 3
//! allows.

mod counts;
mod theirs;
mod written;

use std::error::Error;
use std::hint::black_box;

use petasos_base::Clock;
use petasos_message::{DecodeLimits, DynamicMsg, Input, Plan, Plans, recycle};
use petasos_schema::Options;
use prost::Message;
use theirs::{Feature, Google, Part, Point};

const ROUNDS: usize = 25;
/// Bytes that are decoded, or encoded, in each round.
const ROUND_BYTES: usize = 3 << 20;

fn features() -> [(&'static str, Feature); 3] {
    let place = Point { latitude: 409_146_138, longitude: 746_188_906 };
    let small = Feature {
        name: "Berkshire Valley Management Area Trail, Jefferson, NJ, USA".into(),
        location: Some(place.clone()),
        image: vec![],
        tags: vec!["trail".into(), "area".into()],
        path: vec![Point { latitude: 1, longitude: 0 }, Point { latitude: 0, longitude: 2 }],
        id: 7,
        level: 2,
        score: 9,
    };
    let numbers =
        Feature { id: 123_456, level: 300, score: 5, location: Some(place), ..Default::default() };
    let path = (0..200).map(|at| Point { latitude: at * 1000, longitude: -1 }).collect();
    let tags = (0..50).map(|at| format!("tag number {at}")).collect();
    let large = Feature { path, tags, ..small.clone() };
    [("small", small), ("numbers", numbers), ("large", large)]
}

/// Filled as the message in protobuf's data set is: most fields are there, 230 bytes in all.
fn google() -> Google {
    let part = Part {
        field1: 1,
        field2: 25,
        field3: 65_536,
        field12: true,
        field15: "a part's only string".into(),
        field21: 1_234_567_890_123,
        field22: 1,
        field203: 16,
        field207: 1 << 40,
        ..Default::default()
    };
    Google {
        field1: "".into(),
        field2: 8,
        field3: 0x7fff_ffff,
        field4: "http://example.com/a/path?with=a&query=too".into(),
        field5: vec![1 << 40, 2 << 40, 3 << 40],
        field7: "something of two dozen".into(),
        field9: "another name".into(),
        field15: Some(part),
        field16: 4096,
        field17: true,
        field18: "and a last one of forty bytes or nearly".into(),
        field22: 1 << 33,
        field23: 10,
        field25: 25,
        field29: -1,
        field59: true,
        field67: 2,
        field68: 3,
        field80: true,
        field81: true,
        field100: 1,
        field104: 1,
        field128: 128,
        field271: 271,
        field280: 280,
        ..Default::default()
    }
}

/// One message, and what the codecs make of it.
struct Case<'p> {
    name: &'static str,
    bytes: Vec<u8>,
    plan: Plan<'p>,
    ours: DynamicMsg<'p>,
    theirs: Theirs,
    written: Option<written::Decoded>,
}

enum Theirs {
    Feature(Feature),
    Google(Box<Google>),
}

#[inline(never)]
fn decode<'p>(plan: Plan<'p>, bytes: &[u8]) -> DynamicMsg<'p> {
    let limits = DecodeLimits::for_input(bytes.len());
    DynamicMsg::from_protobuf(plan, Input::Borrowed(bytes), &limits).expect("it was encoded")
}

impl<'p> Case<'p> {
    fn new(name: &'static str, plan: Plan<'p>, theirs: Theirs) -> Case<'p> {
        let (bytes, written) = match &theirs {
            Theirs::Feature(feature) => {
                let bytes = feature.encode_to_vec();
                let written = written::decode(&bytes).expect("it was encoded");
                assert_eq!(written::encode(&written), bytes, "the same message");
                (bytes, Some(written))
            }
            Theirs::Google(message) => (message.encode_to_vec(), None),
        };
        let ours = decode(plan, &bytes);
        let again = ours.to_protobuf(0).expect("small").into_buf();
        assert_eq!(again.as_slice(), bytes, "the same message");
        Case { name, bytes, plan, ours, theirs, written }
    }

    /// Does one thing once. False if nobody has written that out. `kept` is what is appended to.
    #[inline(always)]
    fn run(&self, task: Task, codec: &str, kept: &mut Vec<u8>) -> bool {
        let bytes = black_box(&self.bytes[..]);
        kept.clear();
        match (task, codec, &self.theirs, &self.written) {
            (Task::Decode, "plan", ..) => drop(black_box(decode(self.plan, bytes))),
            (Task::Encode, "plan", ..) => {
                recycle(black_box(self.ours.to_protobuf(0)).expect("it is small").into_buf());
            }
            (Task::Append, "plan", ..) => self.ours.append_protobuf(kept).expect("it is small"),
            (Task::Decode, "prost", Theirs::Feature(_), _) => {
                drop(black_box(Feature::decode(bytes)));
            }
            (Task::Decode, "prost", Theirs::Google(_), _) => drop(black_box(Google::decode(bytes))),
            (Task::Encode, "prost", Theirs::Feature(it), _) => drop(black_box(it.encode_to_vec())),
            (Task::Encode, "prost", Theirs::Google(it), _) => drop(black_box(it.encode_to_vec())),
            (Task::Append, "prost", Theirs::Feature(it), _) => it.encode(kept).expect("it grows"),
            (Task::Append, "prost", Theirs::Google(it), _) => it.encode(kept).expect("it grows"),
            (Task::Decode, "written", Theirs::Feature(_), _) => {
                drop(black_box(written::decode(bytes)));
            }
            (Task::Encode, "written", _, Some(it)) => drop(black_box(written::encode(it))),
            (Task::Append, "written", _, Some(it)) => written::append(it, kept),
            _ => return false,
        }
        black_box(kept);
        true
    }

    /// The best of some rounds, in ns, of each codec: interleaved, so that all have the same luck.
    fn measure(&self, clock: &Clock, task: Task) {
        let repetitions = ROUND_BYTES / self.bytes.len();
        let codecs = ["plan", "written", "prost"];
        let mut best = [f64::MAX; 3];
        let mut kept = Vec::new();
        for _ in 0..ROUNDS {
            for (codec, best) in codecs.iter().zip(&mut best) {
                let start = clock.now();
                for _ in 0..repetitions {
                    if !self.run(task, codec, &mut kept) {
                        break;
                    }
                }
                let taken = clock.now().as_nanos() - start.as_nanos();
                *best = best.min(taken as f64 / repetitions as f64);
            }
        }
        let [plan, written, prost] = best;
        print!("{task:?} {:8} {:5} B: plan {plan:7.1} ns", self.name, self.bytes.len());
        if self.run(task, "written", &mut kept) {
            print!(", written out {written:7.1} ({:.2})", plan / written);
        }
        println!(", prost {prost:7.1} ({:.2})", plan / prost);
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// Into memory of its own, which is given back.
    Decode,
    /// Into a buffer of its own, which is given back.
    Encode,
    /// Into a buffer that is kept.
    Append,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/codec_cost");
    let schema = petasos_schema::compile(["shapes.proto"], [folder], &Options::default())?.schema;
    let plans = Plans::of(&schema)?;
    let plan = |name| schema.message_by_name(name).map(|(id, _)| plans.message(id));
    let feature = plan("shapes.Feature").ok_or("no Feature")?;
    let mut cases: Vec<_> =
        features().map(|(name, message)| Case::new(name, feature, Theirs::Feature(message))).into();
    let message = Theirs::Google(Box::new(google()));
    cases.push(Case::new("google1", plan("shapes.Google").ok_or("no Google")?, message));

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["counts"] {
        let names: Vec<_> = cases.iter().map(|case| (case.name, case.bytes.len())).collect();
        return counts::print(&names);
    }
    if let [direction, codec, name, count] = &arguments[..] {
        let case = cases.iter().find(|case| case.name == name).ok_or("no such message")?;
        let task = match &direction[..] {
            "decode" => Task::Decode,
            "encode" => Task::Encode,
            "append" => Task::Append,
            _ => return Err("no such direction".into()),
        };
        let mut kept = Vec::new();
        for _ in 0..count.parse::<u64>()? {
            case.run(task, codec, &mut kept);
        }
        return Ok(());
    }
    let clock = Clock::system();
    for task in [Task::Decode, Task::Encode, Task::Append] {
        cases.iter().for_each(|case| case.measure(&clock, task));
    }
    Ok(())
}
