//! The format: what was recorded is read, and what is none is refused, with its line.

use petasos_base::Rng;
use petasos_history::{
    Header, LINE_BYTES_MAX, Line, ModelKind, Op, Outcome, Reader, Recorder, Reply, check, read,
};
use proptest::prelude::*;

use crate::support::etcd::{Etcd, Fault};
use crate::support::world::{Plan, World};

fn error(text: &str) -> String {
    read(text.as_bytes()).expect_err("it is no history").to_string()
}

const HEADER: &str = "{\"history\":1,\"model\":\"register\"}\n";
const CALL: &str =
    "{\"process\":3,\"id\":1,\"at\":100,\"call\":{\"set\":{\"key\":\"a\",\"value\":\"1\"}}}\n";

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let end = "{\"process\":3,\"id\":1,\"at\":180,\"ok\":{}}\n";
    let early = end.replace("180", "99");
    let seen = "{\"process\":3,\"id\":1,\"at\":180,\"seen\":{\"progress\":4}}\n";
    for (lines, what) in [
        (vec![HEADER, CALL, CALL], "line 3: call 1 of process 3 was called before"),
        (vec![CALL, end, end], "line 3: call 1 of process 3 has ended before"),
        (vec![end], "line 1: call 1 of process 3 was not called before"),
        (vec![CALL, &early], "line 2: call 1 of process 3 was called later than that"),
        (vec![CALL, HEADER], "line 2: a header comes before all calls"),
        (vec![CALL, "\n", seen], "line 3: call 1 of process 3 is no watch"),
        (vec!["{\"history\":2}\n"], "line 1: it is of version 2 of the format"),
        (vec!["{\"history\":1,\"at\":3}\n"], "line 1: a header has `model` and `revision` only"),
        (vec!["{\"history\":1,\"revision\":9223372036854775807}\n"], "`revision` is too large"),
        (vec!["7\n"], "line 1: invalid type: integer `7`, expected a line of a history"),
        (vec!["{\"model\":\"etcd\"}\n"], "`history` is missing"),
        (vec!["{\"process\":3,\"id\":1}\n"], "line 1: it needs `process`, `id` and `at`"),
        (vec!["{\"process\":3,\"id\":1,\"at\":1}\n"], "it needs one of `call`, `seen`"),
        (vec![CALL, "{\"process\":3,\n"], "line 2: EOF while parsing"),
        (vec![CALL, "nonsense"], "line 2: expected ident at column 2"),
        (vec![&CALL.replace("set", "sett")], "unknown variant `sett`"),
        (vec![&CALL.replace("value", "valu")], "unknown field `valu`"),
        (vec![&CALL.replace("\"a\"", "\"hex:1\"")], "an even number of hexadecimal digits"),
        (vec![&CALL.replace("100", "-1")], "invalid value: integer `-1`"),
    ] {
        let error = error(&lines.concat());
        assert!(error.contains(what), "{lines:?}: {error}");
    }
}

#[test]
fn a_long_line_is_refused_before_it_is_parsed() {
    let text = format!("{CALL}{}", " ".repeat(LINE_BYTES_MAX) + "1");
    let error = read(text.as_bytes()).expect_err("it is too long").to_string();
    assert_eq!(error, format!("line 2: it is longer than {LINE_BYTES_MAX} bytes"));
}

#[test]
fn a_line_that_was_cut_at_the_end_does_not_count() {
    for cut in 1..CALL.len() - 1 {
        let text = format!("{HEADER}{}", &CALL[..cut]);
        assert_eq!(read(text.as_bytes()).expect("its begin is").calls, []);
    }
    // It is whole without the end of the line.
    assert_eq!(read(CALL.trim_end().as_bytes()).expect("it is one").calls.len(), 1);
}

#[test]
fn files_of_several_processes_are_one_history() {
    let header = Header { model: Some(ModelKind::Register), revision: None };
    let mut reader = Reader::new();
    for process in 0..2 {
        let recorder = Recorder::new(Vec::new(), process, Some(header)).expect("it is memory");
        let op = Op::Get { key: "a".into() };
        let call = recorder.call(process * 10, &op).expect("it is memory");
        if process == 1 {
            let reply = Reply { value: Some(None), ..Reply::default() };
            recorder.ok(call, 30, reply).expect("it is memory");
        }
        reader.read(recorder.finish().expect("it is memory").as_slice()).expect("it was recorded");
    }
    let history = reader.finish();
    assert_eq!(history.header, header);
    let places: Vec<_> =
        history.calls.iter().map(|call| (call.place.file, call.place.line)).collect();
    assert_eq!(places, [(0, 2), (1, 2)]);
    assert_eq!(history.calls[0].outcome, Outcome::Unknown, "it has no end");
    assert!(matches!(history.calls[1].outcome, Outcome::Ok(30, _)));
}

#[test]
fn files_that_contradict_each_other_are_refused() {
    let mut reader = Reader::new();
    reader.read(HEADER.as_bytes()).expect("it is a header");
    let error = reader.read("{\"history\":1,\"model\":\"etcd\"}".as_bytes());
    let error = error.expect_err("the models differ").to_string();
    assert_eq!(error, "line 1: the header says something else than that of an earlier file");
    let mut reader = Reader::new();
    reader.read(CALL.as_bytes()).expect("it is a call");
    let error = reader.read(CALL.as_bytes()).expect_err("both are process 3").to_string();
    assert!(error.contains("processes need different numbers"), "{error}");
}

#[test]
fn threads_may_share_a_recorder() {
    let recorder = Recorder::new(Vec::new(), 1, None).expect("it is memory");
    let shared = &recorder;
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                for at in 0..250 {
                    let key = format!("k{thread}").as_str().into();
                    let call = shared.call(at, &Op::Read { key }).expect("it is memory");
                    let reply = Reply { number: Some(0), ..Reply::default() };
                    shared.ok(call, at + 1, reply).expect("it is memory");
                }
            });
        }
    });
    let text = recorder.finish().expect("it is memory");
    let history = read(text.as_slice()).expect("lines are whole");
    assert_eq!(history.calls.len(), 1000);
    assert!(history.calls.iter().all(|call| call.end_place.is_some()));
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(64))]

    /// Also what is read from lines of all kinds is what was written.
    #[test]
    fn lines_come_back_as_they_were(seed: u64) {
        let plan = Plan { clients: 3, calls: 60, unknown: 0.1, not_done: 0.1 };
        let rng = &mut Rng::new(seed);
        let texts = World::new(Etcd::new(3, Fault::None), plan).run(plan, rng);
        for text in texts.iter().flat_map(|text| text.split(|byte| *byte == b'\n')) {
            if !text.is_empty() {
                let line = Line::parse(text).expect("it was recorded");
                let again = line.to_json().expect("it is a line");
                prop_assert_eq!(again.as_bytes(), text);
            }
        }
    }

    /// Any bytes, also such that begin well, are a history or an error; and any model judges it or
    /// refuses it.
    #[test]
    fn damaged_histories_are_read_or_refused(seed: u64, flips in 0_usize..6) {
        let plan = Plan { clients: 3, calls: 12, unknown: 0.1, not_done: 0.1 };
        let rng = &mut Rng::new(seed);
        let texts = World::new(Etcd::new(3, Fault::None), plan).run(plan, rng);
        let mut text = texts[1..].concat();
        for _ in 0..flips {
            let at = rng.below(text.len() as u64) as usize;
            let digit = b'0' + rng.below(10) as u8;
            text[at] = if rng.chance(0.7) { digit } else { rng.next_u64() as u8 };
        }
        if let Ok(history) = read(text.as_slice()) {
            for model in ModelKind::ALL {
                let budget = petasos_history::Budget { steps: 100_000, configurations: 10_000 };
                let _ = check(&history, model, budget);
            }
        }
    }
}
