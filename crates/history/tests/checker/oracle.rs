//! The search against all orders there are, in small histories, of which some were changed.

use std::fmt::Debug;

use petasos_base::Rng;
use petasos_history::{
    Answer, Budget, History, Model, Outcome, Part, counter, etcd, register, search,
};
use proptest::prelude::*;

use crate::support::counters::{self, Counters};
use crate::support::etcd::{self as stores, Calls, Etcd};
use crate::support::registers::{self, Registers};
use crate::support::world::{Plan, Service, history};

/// Something that happens by itself does so at most this often.
const REPEATS_MAX: u32 = 2;

/// All orders, one call after the other, each from a copy of the state.
struct AllOrders<'a, M: Model> {
    part: &'a Part<M>,
}

impl<M: Model> AllOrders<'_, M>
where
    M::State: Clone,
{
    fn any(&self, state: &M::State, placed: &mut Vec<bool>, repeats: u32) -> bool {
        let calls = &self.part.calls;
        let left = |placed: &[bool]| {
            let is_left = |call: &usize| !placed[*call] && calls[*call].ended_at.is_some();
            (0..calls.len()).filter(is_left).collect::<Vec<_>>()
        };
        let left = left(placed);
        let until = left.iter().filter_map(|call| calls[*call].ended_at).min();
        let Some(until) = until else { return true };
        (0..calls.len()).any(|call| {
            let may = !placed[call] && calls[call].called_at <= until;
            let repeats_itself = self.part.model.repeats(&calls[call].call);
            if !may || (repeats_itself && repeats == 0) {
                return false;
            }
            let mut after = state.clone();
            let step = self.part.model.apply(&mut after, &calls[call].call, until);
            if step.is_none() {
                return false;
            }
            placed[call] = !repeats_itself;
            let found = self.any(&after, placed, repeats - u32::from(repeats_itself));
            placed[call] = false;
            found
        })
    }
}

/// Whether an order has each answered call once, between its begin and its end, and fits.
fn is_order<M: Model>(part: &Part<M>, order: &[usize]) -> bool {
    let calls = &part.calls;
    let mut state = part.model.start();
    let mut latest = 0;
    let is_in_time = order.iter().enumerate().all(|(at, call)| {
        let ends = order[at..].iter().filter_map(|call| calls[*call].ended_at);
        let until = ends.min().unwrap_or(u64::MAX);
        latest = latest.max(calls[*call].called_at);
        latest <= until && part.model.apply(&mut state, &calls[*call].call, until).is_some()
    });
    let answered = (0..calls.len()).filter(|call| calls[*call].ended_at.is_some());
    let mut placed: Vec<usize> =
        order.iter().copied().filter(|call| calls[*call].ended_at.is_some()).collect();
    placed.sort_unstable();
    is_in_time && placed.into_iter().eq(answered)
}

/// Whether a part is good, on which both must agree.
fn judged<M: Model>(part: &Part<M>) -> bool
where
    M::State: Clone,
{
    let all = AllOrders { part };
    let expected = all.any(&part.model.start(), &mut vec![false; part.calls.len()], REPEATS_MAX);
    match search(part, &mut Budget::default()) {
        Answer::Good(order) => {
            assert!(expected, "there is no order, but {order:?} was found");
            assert!(is_order(part, &order), "{order:?}");
        }
        Answer::Violated(prefix) => assert!(!expected, "there is an order: {prefix:?}"),
        Answer::Undecided => panic!("so few calls"),
    }
    expected
}

/// Changes one call's outcome, or the order of times.
fn change(
    history: &mut History,
    rng: &mut Rng,
    change_reply: impl Fn(&mut History, usize, &mut Rng),
) {
    let count = history.calls.len() as u64;
    let which = rng.below(count) as usize;
    match rng.below(8) {
        0 => history.calls[which].outcome = Outcome::NotDone,
        1 => history.calls[which].outcome = Outcome::Unknown,
        2 => {
            if let Outcome::Ok(at, _) = &mut history.calls[which].outcome {
                *at += rng.below(5000);
            }
        }
        _ => change_reply(history, which, rng),
    }
}

/// Gives a call the answer of another one.
fn swap_replies(history: &mut History, which: usize, rng: &mut Rng) {
    let other = rng.below(history.calls.len() as u64) as usize;
    let name = |call: usize| history.calls[call].op.name();
    if name(which) != name(other) {
        return;
    }
    let reply = match &history.calls[other].outcome {
        Outcome::Ok(_, reply) => reply.clone(),
        _ => return,
    };
    if let Outcome::Ok(_, ours) = &mut history.calls[which].outcome {
        *ours = reply;
    }
}

fn small<S: Service>(service: S, rng: &mut Rng) -> History {
    let clients = 2 + rng.below(3);
    let calls = 4 + rng.below(4) as usize;
    history(service, Plan { clients, calls, unknown: 0.2, not_done: 0.1 }, rng)
}

fn registers(seed: u64) -> bool {
    let rng = &mut Rng::new(seed);
    let (keys, values) = (1 + rng.below(2), 2 + rng.below(2));
    let service = Registers::new(keys, values, registers::Fault::None);
    let service = if rng.chance(0.3) { service.plain() } else { service };
    let service = if rng.chance(0.3) { service.stamped_ones() } else { service };
    let service = if rng.chance(0.3) { service.with_transactions() } else { service };
    let mut history = small(service, rng);
    if rng.chance(0.8) {
        change(&mut history, rng, |history, which, rng| match &mut history.calls[which].outcome {
            Outcome::Ok(_, reply) if rng.chance(0.7) => {
                let other = Some(format!("v{}", rng.below(3)).as_str().into());
                let value = |_| if rng.chance(0.2) { None } else { other };
                reply.value = reply.value.take().map(value);
                reply.done = reply.done.map(|done| !done);
                reply.existed = reply.existed.map(|existed| !existed);
                reply.length = reply.length.map(|length| length + 2);
            }
            _ => swap_replies(history, which, rng),
        });
    }
    all_good(register::parts(&history).map_err(|error| error.to_string()))
}

fn counters(seed: u64) -> bool {
    let rng = &mut Rng::new(seed);
    let mut history = small(Counters::new(1, counters::Fault::None), rng);
    if rng.chance(0.8) {
        change(&mut history, rng, |history, which, rng| {
            if let Outcome::Ok(_, reply) = &mut history.calls[which].outcome {
                reply.number = reply.number.map(|number| number + 1 - rng.below(3).cast_signed());
            }
        });
    }
    all_good(counter::parts(&history).map_err(|error| error.to_string()))
}

fn stores(seed: u64) -> bool {
    let rng = &mut Rng::new(seed);
    let calls = if rng.chance(0.5) { Calls::Leases } else { Calls::All };
    let mut history = small(Etcd::new(2, stores::Fault::None).only(calls), rng);
    if calls == Calls::Leases {
        // Time enough that leases may end: at one time or another, as the service did not end them.
        let factor = 1 + rng.below(300);
        slow_down(&mut history, factor);
    }
    for _ in 0..rng.below(4) {
        change(&mut history, rng, |history, which, rng| match &mut history.calls[which].outcome {
            Outcome::Ok(_, reply) if rng.chance(0.4) => {
                let other = |revision: u64| {
                    if rng.chance(0.5) { revision + 1 } else { revision.saturating_sub(1) }
                };
                reply.revision = reply.revision.map(other);
            }
            Outcome::Ok(_, reply) if rng.chance(0.6) => {
                reply.alive = reply.alive.map(|alive| !alive);
                reply.deleted = reply.deleted.map(|deleted| deleted + 1);
                if let Some(items) = &mut reply.items
                    && items.pop().is_none()
                {
                    reply.count = Some(1);
                }
            }
            _ => swap_replies(history, which, rng),
        });
    }
    let part = etcd::part(&history);
    all_good(part.map(|(part, violations)| {
        // What is wrong with a watch by itself is no matter of orders.
        if violations.is_empty() { vec![(String::new(), part)] } else { vec![] }
    }))
}

fn slow_down(history: &mut History, factor: u64) {
    for call in &mut history.calls {
        call.called_at *= factor;
        if let Outcome::Ok(at, _) = &mut call.outcome {
            *at *= factor;
        }
    }
    // Watches have seen what they have seen.
    history.calls.retain(|call| call.op.name() != "watch");
}

/// An answer that was changed may be none of its call any more: that is no history.
fn all_good<M: Model, E: Debug>(parts: Result<Vec<(String, Part<M>)>, E>) -> bool
where
    M::State: Clone,
{
    // All parts are judged, also behind one that is not good.
    let parts = parts.unwrap_or_default();
    parts.iter().filter(|(_, part)| !judged(part)).count() == 0
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(5000))]

    #[test]
    fn registers_are_judged_as_by_all_orders(seed: u64) {
        registers(seed);
    }

    #[test]
    fn counters_are_judged_as_by_all_orders(seed: u64) {
        counters(seed);
    }

    #[test]
    fn stores_are_judged_as_by_all_orders(seed: u64) {
        stores(seed);
    }
}

/// Neither good nor bad ones are rare: else the properties would say little.
#[test]
fn both_kinds_of_history_occur() {
    for (name, judge) in
        [("registers", registers as fn(u64) -> bool), ("counters", counters), ("stores", stores)]
    {
        let good = (0..500).filter(|seed| judge(*seed)).count();
        assert!((50..450).contains(&good), "{name}: {good} of 500 are good");
    }
}
