use petasos_engine::*;

use super::support::*;
use crate::Tracing;

const ALL: &str = r#"{"probability": 1, "spans_max": 3}"#;
const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Begins a call with entries, and gives the context with which it leaves.
fn begin(rig: &mut Rig, entries: &[&str]) -> (CallId, Vec<String>) {
    let id = rig.datapath.begin(call()).unwrap();
    let mut item = Submission::new(ItemKind::Request, Direction::Outbound, 10);
    entries.iter().for_each(|value| item.metadata.append("traceparent", value).unwrap());
    rig.datapath.submit(id, item, rig.now()).unwrap();
    rig.run();
    let left = rig.out().pop().expect("it passes").metadata;
    (id, left.get_all("traceparent").map(str::to_owned).collect())
}

#[test]
fn requests_get_a_context_and_spans_are_kept() {
    let mut rig = Rig::new(&Tracing, ALL);
    let (id, context) = begin(&mut rig, &[]);
    let trace = TraceContext::from_traceparent(&context[0]).expect("it is right");
    assert!(trace.is_sampled());
    rig.run_after(5);
    rig.end(id, Some(Status::not_found("x")));
    let span = &rig.report()["spans"][0];
    assert_eq!(span["context"], context[0].as_str());
    assert_eq!(
        (&span["method"], &span["code"]),
        (&"pkg.Service/Method".into(), &"NOT_FOUND".into())
    );
    let took = span["ended_ns"].as_u64().unwrap() - span["began_ns"].as_u64().unwrap();
    assert_eq!(took, 5000);
}

#[test]
fn a_context_that_is_there_is_kept_and_one_that_is_wrong_replaced() {
    let mut rig = Rig::new(&Tracing, ALL);
    let (id, context) = begin(&mut rig, &[GIVEN]);
    assert_eq!(context, [GIVEN]);
    rig.end(id, None);
    let span = rig.report()["spans"][0].clone();
    assert_eq!(span["parent"], GIVEN);
    let own = span["context"].as_str().unwrap();
    assert!(own.starts_with(&GIVEN[..36]) && own != GIVEN, "{own}");
    let unsampled = GIVEN.replace("-01", "-00");
    let (id, context) = begin(&mut rig, &[&unsampled]);
    assert_eq!(context, [unsampled]);
    rig.end(id, None);
    assert_eq!(rig.report()["finished"], 1, "its trace is not recorded");
    let (_, context) = begin(&mut rig, &["wrong", "twice"]);
    assert_eq!(context.len(), 1);
    assert!(TraceContext::from_traceparent(&context[0]).is_some());
}

#[test]
fn a_part_of_the_requests_is_recorded() {
    let mut rig = Rig::new(&Tracing, r#"{"probability": 0.25}"#);
    let recorded = (0..4000).filter(|_| !begin(&mut rig, &[]).1.is_empty()).count();
    assert!((900..1100).contains(&recorded), "{recorded}");
}

#[test]
fn a_span_that_has_begun_ends_after_an_upgrade() {
    let mut rig = Rig::new(&Tracing, ALL);
    let (first, _) = begin(&mut rig, &[]);
    rig.end(first, None);
    let (id, context) = begin(&mut rig, &[]);
    rig.upgrade(r#"{"probability": 0}"#);
    rig.run_after(7);
    rig.end(id, None);
    let report = rig.report();
    assert_eq!(report["finished"], 2);
    assert_eq!(report["spans"][1]["context"], context[0].as_str());
}

#[test]
fn the_oldest_spans_are_dropped_and_calls_that_are_given_up_end() {
    let mut rig = Rig::new(&Tracing, ALL);
    for n in 0..1000 {
        let (id, _) = begin(&mut rig, &[]);
        rig.submit(id, ItemKind::Cancel, n);
        rig.run();
        rig.out();
    }
    let report = rig.report();
    assert_eq!(report["finished"], 1000);
    assert_eq!(report["spans"].as_array().unwrap().len(), 3);
    assert_eq!(report["spans"][2]["code"], "CANCELLED");
    let id = rig.datapath.begin(stream()).unwrap();
    rig.submit(id, ItemKind::Message, 1);
    rig.end(id, None);
    assert_eq!(rig.report()["finished"], 1000, "its request was not seen");
}

#[test]
fn one_application_does_not_push_out_the_spans_of_others() {
    let mut rig = Rig::new(&Tracing, r#"{"probability": 1, "spans_max": 10}"#);
    let mut call_of = |application: u32, count: usize| {
        for _ in 0..count {
            let call = Call { application: Application(application), ..call() };
            let id = rig.datapath.begin(call).unwrap();
            let item = Submission::new(ItemKind::Request, Direction::Outbound, 10);
            rig.datapath.submit(id, item, rig.now()).unwrap();
            rig.run_after(1);
            rig.out();
            rig.end(id, None);
        }
        let report = rig.report();
        let spans = report["spans"].as_array().unwrap();
        let times: Vec<_> = spans.iter().map(|span| span["ended_ns"].as_u64()).collect();
        assert!(times.is_sorted(), "{times:?}");
        [1, 2, 3].map(|of| spans.iter().filter(|span| span["application"] == of).count())
    };
    assert_eq!(call_of(1, 3), [3, 0, 0]);
    assert_eq!(call_of(2, 1000), [3, 7, 0]);
    assert_eq!(call_of(3, 2), [3, 5, 2]);
    assert_eq!(call_of(1, 1000), [4, 4, 2]);
}

#[test]
fn states_and_configurations() {
    let version_1 = r#"{"finished": 9, "spans": [{"context": "00-1-2-01", "application": 1,
        "method": 3, "peer": 2, "began_ns": 5, "ended_ns": 6, "code": "OK"}]}"#;
    let policy = goes_on_from(&Tracing, ALL, version_1);
    let report = policy.report();
    assert_eq!((&report["finished"], &report["spans"][0]["ended_ns"]), (&9.into(), &6.into()));
    are_wrong(
        &Tracing,
        &[
            ("{}", "missing field `probability`"),
            (r#"{"probability": 2}"#, "`probability` must be from 0 to 1, and is 2"),
            (r#"{"probability": 1, "spans_max": 0}"#, "`spans_max` must be from 1 to 65536"),
            (r#"{"probability": 1, "ring": 0}"#, "unknown field `ring`"),
        ],
    );
}
