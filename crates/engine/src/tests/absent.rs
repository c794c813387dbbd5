//! Places without their engines (E9).

use std::sync::Arc;

use super::support::*;
use crate::*;

/// An engine that has passed one item on is taken out, with another call under way.
fn without(without: Without) -> (Datapath, Seen, Arc<dyn Policy>, CallId) {
    let (mut datapath, seen) = datapath(&[Habit::Pass]);
    let stream = datapath.begin(call(Direction::Outbound, true)).unwrap();
    submit(&mut datapath, stream, ItemKind::Request, 1).unwrap();
    datapath.run(Time::ZERO);
    take_all(&mut datapath, Direction::Outbound);
    let policy = datapath.policy(0).cloned().unwrap();
    let absent = Arc::new(Absent::new(policy.clone(), without));
    assert_eq!(absent.state(), policy.state());
    datapath.replace(0, absent, &mut TestSchema::default()).unwrap();
    (datapath, seen, policy, stream)
}

#[test]
fn e9_items_pass_an_open_place() {
    let (mut datapath, seen, ..) = without(Without::Open);
    request(&mut datapath, 2);
    datapath.run(Time::ZERO);
    assert_eq!(take_all(&mut datapath, Direction::Outbound).len(), 1);
    assert_eq!(*seen.lock().unwrap(), [(0, 1)], "the engine has seen the first alone");
    check(&datapath);
}

#[test]
fn e9_no_call_begins_at_a_closed_place_and_others_go_on() {
    let (mut datapath, _, _, stream) = without(Without::Closed);
    let refused = request(&mut datapath, 2);
    submit(&mut datapath, stream, ItemKind::Message, 3).unwrap();
    datapath.run(Time::ZERO);
    let out = take_all(&mut datapath, Direction::Outbound);
    assert_eq!(out.iter().map(|item| item.call).collect::<Vec<_>>(), [stream]);
    let end = datapath.take(Direction::Inbound).unwrap();
    assert_eq!((end.call, end.has_not_run), (refused, true));
    assert_eq!(end.status.unwrap().code(), Code::Unavailable);
    check(&datapath);
}

#[test]
fn e9_an_engine_that_comes_back_goes_on_from_its_state() {
    for rule in [Without::Open, Without::Closed] {
        let (mut datapath, _, policy, _) = without(rule);
        let schema = &mut TestSchema::default();
        // It may be taken out, and even be replaced by another stand-in, before.
        let again = Arc::new(Absent::new(policy.clone(), Without::Open));
        datapath.replace(0, again, schema).unwrap();
        datapath.replace(0, policy, schema).unwrap();
        let state = datapath.detach(0, schema).unwrap().unwrap();
        assert_eq!((state.kind.as_str(), state.json.as_str()), ("test", "1"));
    }
}

#[test]
fn e9_what_an_engine_held_is_judged_by_the_place_without_it() {
    for (rule, passed) in [(Without::Open, 1), (Without::Closed, 0)] {
        let (mut datapath, _) = datapath(&[Habit::Hold(1000)]);
        request(&mut datapath, 1);
        datapath.run(Time::ZERO);
        let policy = datapath.policy(0).cloned().unwrap();
        let absent = Arc::new(Absent::new(policy, rule));
        datapath.replace(0, absent, &mut TestSchema::default()).unwrap();
        datapath.run(Time::ZERO);
        assert_eq!(take_all(&mut datapath, Direction::Outbound).len(), passed);
        check(&datapath);
    }
}
