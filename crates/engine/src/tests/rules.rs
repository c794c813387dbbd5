//! What engines may do with items (E1, E2, E4).

use super::support::*;
use crate::*;

const NOW: Time = Time::from_nanos(1000);

#[test]
fn e1_items_pass_in_order_and_in_one_run_both_ways() {
    let (mut datapath, seen) = datapath(&[Habit::Pass, Habit::Pass, Habit::Pass]);
    let calls: Vec<CallId> = (0..10).map(|bytes| request(&mut datapath, bytes)).collect();
    assert!(datapath.run(NOW).has_worked);
    let out = take_all(&mut datapath, Direction::Outbound);
    assert_eq!(out.iter().map(|item| item.call).collect::<Vec<_>>(), calls);
    for id in &calls {
        submit(&mut datapath, *id, ItemKind::End, 99).unwrap();
    }
    datapath.run(NOW);
    let back = take_all(&mut datapath, Direction::Inbound);
    assert!(back.iter().all(|item| item.kind == ItemKind::End && item.status.is_none()));
    assert_eq!(seen.lock().unwrap().len(), 60, "three engines have seen ten calls each way");
    assert!(calls.iter().all(|id| datapath.call(*id).is_none()));
    assert_eq!(
        datapath.run(NOW),
        Turn { has_worked: false, has_more: false, wake_at: Time::NEVER }
    );
    check(&datapath);
}

#[test]
fn e1_a_batch_has_64_items_at_most() {
    let (mut datapath, _) = datapath(&[Habit::Pass]);
    for bytes in 0..100 {
        request(&mut datapath, bytes);
    }
    // Along the chain and back: an engine gets two batches in a run.
    let (mut taken, mut runs) = (0, 0);
    while taken < 100 {
        datapath.run(NOW);
        let now = take_all(&mut datapath, Direction::Outbound).len();
        assert!(now > 0 && now <= 2 * BATCH_MAX as usize);
        (taken, runs) = (taken + now, runs + 1);
    }
    assert_eq!(runs, 1);
    check(&datapath);
}

#[test]
fn e1_an_engine_that_holds_is_woken_when_it_asked_to_be() {
    let (mut datapath, _) = datapath(&[Habit::Hold(500)]);
    request(&mut datapath, 1);
    let turn = datapath.run(NOW);
    assert_eq!((turn.wake_at, turn.has_more), (NOW.plus_nanos(500), false));
    assert!(datapath.take(Direction::Outbound).is_none());
    assert!(!datapath.run(NOW.plus_nanos(499)).has_worked);
    assert!(datapath.run(NOW.plus_nanos(500)).has_worked);
    assert_eq!(take_all(&mut datapath, Direction::Outbound).len(), 1);
}

#[test]
fn e2_a_refused_request_never_leaves_and_has_not_run() {
    let (mut datapath, seen) = datapath(&[Habit::Pass, Habit::End(1.0), Habit::Pass]);
    let id = request(&mut datapath, 5);
    datapath.run(NOW);
    assert!(datapath.take(Direction::Outbound).is_none());
    let end = datapath.take(Direction::Inbound).expect("the caller is told");
    assert_eq!((end.kind, end.call, end.has_not_run), (ItemKind::End, id, true));
    assert!(end.is_from_engine);
    assert_eq!(end.status.expect("it failed").code(), Code::PermissionDenied);
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, [(0, 5), (0, 0)], "the first engine sees the end, the third one nothing");
    assert!(datapath.call(id).is_none());
    assert_eq!(submit(&mut datapath, id, ItemKind::End, 0), Err(Gone));
    check(&datapath);
}

#[test]
fn e2_a_refused_response_tells_the_caller_only() {
    let (mut datapath, _) = datapath(&[]);
    let id = request(&mut datapath, 5);
    take_all(&mut datapath, Direction::Outbound);
    let refuse = policy(1, Habit::End(1.0), &Seen::default());
    datapath.attach(0, refuse, &mut TestSchema::default()).unwrap();
    submit(&mut datapath, id, ItemKind::End, 7).unwrap();
    datapath.run(NOW);
    let end = datapath.take(Direction::Inbound).expect("the caller is told");
    assert_eq!((end.has_not_run, end.is_from_engine), (false, true));
    assert!(end.status.is_some() && datapath.take(Direction::Outbound).is_none());
    assert!(datapath.call(id).is_none());
}

#[test]
fn e2_a_stream_that_is_ended_is_cancelled_at_the_callee_and_nothing_follows() {
    let (mut datapath, _) = datapath(&[Habit::Hold(0)]);
    let id = datapath.begin(call(Direction::Outbound, true)).unwrap();
    submit(&mut datapath, id, ItemKind::Request, 0).unwrap();
    datapath.run(NOW);
    datapath.run(NOW);
    assert_eq!(take_all(&mut datapath, Direction::Outbound).len(), 1);
    let refuse = policy(1, Habit::End(1.0), &Seen::default());
    datapath.attach(1, refuse, &mut TestSchema::default()).unwrap();
    for bytes in [1, 2, 3] {
        submit(&mut datapath, id, ItemKind::Message, bytes).unwrap();
    }
    for _ in 0..3 {
        datapath.run(NOW);
    }
    let cancel = take_all(&mut datapath, Direction::Outbound);
    assert_eq!(cancel.iter().map(|item| item.kind).collect::<Vec<_>>(), [ItemKind::Cancel]);
    let end = take_all(&mut datapath, Direction::Inbound);
    assert_eq!(end.iter().map(|item| item.kind).collect::<Vec<_>>(), [ItemKind::End]);
    assert_eq!(free_void(&mut datapath), 2, "two messages were behind the first");
    assert_eq!(submit(&mut datapath, id, ItemKind::Message, 4), Err(Gone));
    assert!(datapath.call(id).is_none());
    check(&datapath);
}

#[test]
fn e2_a_call_that_is_given_up_before_it_left_is_never_heard_of() {
    let (mut datapath, _) = datapath(&[Habit::Hold(1000)]);
    let id = request(&mut datapath, 1);
    datapath.run(NOW);
    submit(&mut datapath, id, ItemKind::Cancel, 0).unwrap();
    assert_eq!(submit(&mut datapath, id, ItemKind::End, 0), Err(Gone));
    datapath.run(NOW.plus_nanos(1000));
    datapath.run(NOW.plus_nanos(2000));
    assert!(datapath.take(Direction::Outbound).is_none(), "neither a request nor a cancel");
    assert_eq!(free_void(&mut datapath), 2);
    assert!(datapath.call(id).is_none());
    check(&datapath);
}

#[test]
fn e2_a_call_that_is_given_up_later_is_cancelled_and_its_end_is_void() {
    let (mut datapath, _) = datapath(&[Habit::Pass]);
    let id = request(&mut datapath, 1);
    datapath.run(NOW);
    assert_eq!(take_all(&mut datapath, Direction::Outbound).len(), 1);
    submit(&mut datapath, id, ItemKind::End, 0).unwrap();
    submit(&mut datapath, id, ItemKind::Cancel, 0).unwrap();
    datapath.run(NOW);
    let cancel = datapath.take(Direction::Outbound).expect("the callee is told");
    assert_eq!(cancel.kind, ItemKind::Cancel);
    assert!(datapath.take(Direction::Inbound).is_none());
    assert_eq!(free_void(&mut datapath), 1);
    assert!(datapath.call(id).is_none());
    check(&datapath);
}

#[test]
fn e2_what_an_engine_changes_goes_with_the_item() {
    struct Edit;
    impl Engine for Edit {
        fn work(&mut self, work: &mut Work<'_>) {
            while let Some(item) = work.next(Direction::Outbound) {
                work.metadata_mut(&item).append("k", "v").unwrap();
                work.limit_deadline(&item, Time::from_nanos(50));
                work.limit_deadline(&item, Time::from_nanos(60));
                work.mirror(&item, Peer(9));
                work.forward(item);
            }
        }
        fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
            None
        }
    }
    struct EditPolicy;
    impl Policy for EditPolicy {
        fn engine(&self, _: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
            Ok(Box::new(Edit))
        }
        fn state(&self) -> State {
            State::new(VERSION, &())
        }
    }
    let (mut datapath, _) = datapath(&[]);
    datapath.attach(0, std::sync::Arc::new(EditPolicy), &mut TestSchema::default()).unwrap();
    request(&mut datapath, 1);
    datapath.run(NOW);
    let request = datapath.take(Direction::Outbound).unwrap();
    assert_eq!(request.metadata.get("k"), Some("v"));
    assert_eq!((request.deadline, request.mirror), (Time::from_nanos(50), Some(Peer(9))));
}

#[test]
fn a_full_datapath_takes_no_call_until_items_have_left() {
    let mut datapath = Datapath::new(2, 7);
    let first = request(&mut datapath, 1);
    request(&mut datapath, 2);
    assert_eq!(datapath.begin(call(Direction::Outbound, false)), Err(Full));
    take_all(&mut datapath, Direction::Outbound);
    assert_eq!(datapath.begin(call(Direction::Outbound, false)), Err(Full), "two calls are open");
    submit(&mut datapath, first, ItemKind::End, 0).expect("what ends a call is taken anyway");
    take_all(&mut datapath, Direction::Inbound);
    assert!(datapath.begin(call(Direction::Outbound, false)).is_ok());
}

#[test]
fn e5_a_call_is_known_by_its_number_until_it_is_over() {
    let mut datapath = Datapath::new(10, 7);
    let first = request(&mut datapath, 1);
    take_all(&mut datapath, Direction::Outbound);
    assert_eq!(CallId::from_number(first.to_number()), first);
    submit(&mut datapath, first, ItemKind::End, 0).unwrap();
    take_all(&mut datapath, Direction::Inbound);
    let second = request(&mut datapath, 1);
    assert_eq!(second.index, first.index);
    assert_ne!(second.to_number(), first.to_number());
    assert_eq!(CallId::from_number(second.to_number()), second);
    assert!(datapath.call(CallId::from_number(first.to_number())).is_none());
}
