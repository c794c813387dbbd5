//! Items that wait for the application.

use std::collections::HashMap;

use petasos_base::Rng;

use super::support::*;
use crate::*;

const NOW: Time = Time::from_nanos(1000);

/// A stream of the application whose request is out.
fn stream(datapath: &mut Datapath) -> CallId {
    let id = datapath.begin(call(Direction::Outbound, true)).expect("there is room");
    submit(datapath, id, ItemKind::Request, 0).expect("the call is there");
    datapath.run(NOW);
    assert_eq!(take_all(datapath, Direction::Outbound).len(), 1);
    id
}

fn come_in(datapath: &mut Datapath, id: CallId, kind: ItemKind, bytes: u32) {
    let item = Submission::new(kind, Direction::Inbound, bytes);
    datapath.submit(id, item, NOW).expect("the call is there");
    datapath.run(NOW);
}

/// The call of the inbound item that is shown.
fn shown(datapath: &mut Datapath) -> Option<CallId> {
    datapath.peek(Direction::Inbound).map(|next| next.call)
}

#[test]
fn a_call_that_waits_holds_up_no_other_and_its_order_stays() {
    let (mut datapath, _) = datapath(&[Habit::Pass]);
    let [slow, fast] = [(); 2].map(|()| stream(&mut datapath));
    for bytes in [1, 2] {
        come_in(&mut datapath, slow, ItemKind::Message, bytes);
    }
    come_in(&mut datapath, fast, ItemKind::Message, 3);
    come_in(&mut datapath, slow, ItemKind::End, 4);
    assert_eq!(shown(&mut datapath), Some(slow));
    datapath.set_aside();
    assert!(datapath.is_aside(slow) && !datapath.is_aside(fast));
    assert_eq!(shown(&mut datapath), Some(fast));
    assert_eq!(datapath.take_shown(Direction::Inbound).call, fast);
    assert_eq!(shown(&mut datapath), None);
    assert_eq!(datapath.counts().queued, 3);
    assert_eq!(datapath.aside_load(), AsideLoad { bytes: 7, items: 3 });
    assert_eq!(datapath.fullest_aside(), Some(slow));
    check(&datapath);
    datapath.resume(fast);
    assert_eq!(shown(&mut datapath), None);
    datapath.resume(slow);
    let kinds = take_all(&mut datapath, Direction::Inbound).into_iter().map(|item| item.kind);
    let in_order = [ItemKind::Message, ItemKind::Message, ItemKind::End];
    assert_eq!(kinds.collect::<Vec<_>>(), in_order);
    assert!(datapath.call(slow).is_none() && !datapath.is_aside(slow));
    check(&datapath);
}

#[test]
fn what_waits_of_a_call_that_ends_otherwise_is_void() {
    for way in 0..3 {
        let (mut datapath, _) = datapath(&[Habit::Pass]);
        let id = stream(&mut datapath);
        for bytes in [1, 2, 3] {
            come_in(&mut datapath, id, ItemKind::Message, bytes);
        }
        assert!(shown(&mut datapath).is_some());
        datapath.set_aside();
        assert_eq!(shown(&mut datapath), None);
        let direction = match way {
            // The application gives it up.
            0 => {
                submit(&mut datapath, id, ItemKind::Cancel, 0).expect("the call is there");
                Direction::Outbound
            }
            // The service ends it.
            1 => {
                datapath.end(id, Status::unavailable("gone"), NOW);
                Direction::Inbound
            }
            // It comes to its end while a last message waits.
            _ => {
                let end = Submission::new(ItemKind::End, Direction::Outbound, 0);
                datapath.submit(id, end, NOW).expect("the call is there");
                Direction::Outbound
            }
        };
        datapath.run(NOW);
        take_all(&mut datapath, direction);
        take_all(&mut datapath, direction.reverse());
        assert_eq!(free_void(&mut datapath), 3, "{way}");
        assert!(datapath.call(id).is_none() && !datapath.is_aside(id), "{way}");
        assert_eq!(datapath.counts().queued, 0);
        check(&datapath);
        // Its place is another's, of which nothing waits.
        let next = stream(&mut datapath);
        assert_eq!(next.index, id.index);
        come_in(&mut datapath, next, ItemKind::Message, 9);
        assert_eq!(shown(&mut datapath), Some(next));
    }
}

/// What was sent and taken of each call, in order.
#[derive(Default)]
struct Journal {
    sent: HashMap<CallId, Vec<u32>>,
    taken: HashMap<CallId, Vec<u32>>,
}

impl Journal {
    fn send(&mut self, datapath: &mut Datapath, id: CallId, number: u32, now: Time) {
        let mut item = Submission::new(ItemKind::Message, Direction::Inbound, 1);
        item.metadata.append("number", &number.to_string()).expect("it is metadata");
        if datapath.submit(id, item, now).is_ok() {
            self.sent.entry(id).or_default().push(number);
        }
    }

    /// Takes what is shown, and lets messages wait with this probability.
    fn take(&mut self, datapath: &mut Datapath, waits: f64, rng: &mut Rng) {
        while let Some(next) = datapath.peek(Direction::Inbound) {
            if next.kind == ItemKind::Message && rng.chance(waits) {
                datapath.set_aside();
                continue;
            }
            let item = datapath.take_shown(Direction::Inbound);
            if let Some(number) = item.metadata.get("number") {
                let number = number.parse().expect("it is a number");
                self.taken.entry(item.call).or_default().push(number);
            }
        }
        free_void(datapath);
        check(datapath);
    }
}

#[test]
fn nothing_is_lost_or_comes_out_of_order_whatever_waits() {
    for seed in 0..200 {
        let (mut rng, mut journal, mut now) = (Rng::new(seed), Journal::default(), NOW);
        let (mut datapath, seen) = datapath(&[Habit::Pass, Habit::Hold(2)]);
        let begin = |datapath: &mut Datapath, now: Time| {
            let id = datapath.begin(call(Direction::Outbound, true)).expect("there is room");
            submit(datapath, id, ItemKind::Request, 0).expect("the call is there");
            datapath.run(now);
            id
        };
        let mut calls: Vec<CallId> = (0..4).map(|_| begin(&mut datapath, now)).collect();
        for number in 0..300 {
            now = now.plus_nanos(1);
            let at = rng.below(calls.len() as u64) as usize;
            let id = calls[at];
            match rng.below(8) {
                0..3 => journal.send(&mut datapath, id, number, now),
                3 => datapath.resume(id),
                4 if rng.chance(0.1) => {
                    let _ = submit(&mut datapath, id, ItemKind::Cancel, 0);
                }
                5 if rng.chance(0.1) => datapath.end(id, Status::internal("a test"), now),
                6 if rng.chance(0.3) => {
                    let schema = &mut TestSchema::default();
                    let policy = policy(9, Habit::Pass, &seen);
                    datapath.attach(0, policy, schema).expect("there is room");
                    datapath.detach(1, schema).expect("it is there");
                }
                _ => {
                    datapath.run(now);
                }
            }
            take_all(&mut datapath, Direction::Outbound);
            journal.take(&mut datapath, 0.5, &mut rng);
            if datapath.call(id).is_none() {
                calls[at] = begin(&mut datapath, now);
            }
        }
        // What is held once more is let go.
        for later in [10, 20] {
            datapath.run(now.plus_nanos(later));
        }
        calls.iter().for_each(|id| datapath.resume(*id));
        take_all(&mut datapath, Direction::Outbound);
        journal.take(&mut datapath, 0.0, &mut rng);
        for (id, sent) in &journal.sent {
            let taken = journal.taken.get(id).map_or(&[][..], |taken| taken);
            assert!(sent.starts_with(taken), "{seed}: {sent:?}, {taken:?}");
            let is_open = datapath.call(*id).is_some();
            assert!(!is_open || sent.len() == taken.len(), "{seed}: {sent:?}, {taken:?}");
        }
        assert_eq!(datapath.counts().queued, 0, "{seed}");
        assert_eq!(datapath.aside_load(), AsideLoad::default(), "{seed}");
    }
}
