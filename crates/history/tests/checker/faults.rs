//! Each planted fault is found, in random histories with unknown outcomes and without.

use petasos_base::Rng;
use petasos_history::{Budget, Verdict, check};

use crate::support::counters::{self, Counters};
use crate::support::etcd::{self, Calls, Etcd};
use crate::support::registers::{self, Registers};
use crate::support::sequences::{self, Sequences};
use crate::support::world::{Plan, Service, history};

const SEEDS: u64 = 6;
const PLAN: Plan = Plan { clients: 8, calls: 1200, unknown: 0.0, not_done: 0.02 };

fn verdict<S: Service>(service: S, unknown: f64, seed: u64) -> Verdict {
    let history = history(service, Plan { unknown, ..PLAN }, &mut Rng::new(seed));
    let budget = Budget { steps: 20_000_000, configurations: 4_000_000 };
    check(&history, S::MODEL, budget).expect("it is a history of this model").verdict
}

/// All histories of a right service are good, and all of a wrong one are violated.
fn judge<S: Service>(is_wrong: bool, unknown: f64, what: &str, service: impl Fn() -> S) {
    for seed in 0..SEEDS {
        match verdict(service(), unknown, seed) {
            Verdict::Good if !is_wrong => {}
            Verdict::Violated(violations) if is_wrong => assert!(!violations.is_empty()),
            other => panic!("{what}, unknown outcomes {unknown}, seed {seed}: {other:?}"),
        }
    }
}

const OUTCOMES: [f64; 2] = [0.0, 0.01];

#[test]
fn registers() {
    use registers::Fault;
    for unknown in OUTCOMES {
        for fault in [
            Fault::None,
            Fault::StaleRead,
            Fault::LostWrite,
            Fault::DoneTwice,
            Fault::NoCompare,
            Fault::Denied,
        ] {
            let what = format!("{fault:?}");
            judge(fault != Fault::None, unknown, &what, || Registers::new(4, 0, fault));
        }
    }
}

#[test]
fn registers_with_stamps() {
    use registers::Fault;
    for unknown in OUTCOMES {
        for fault in [Fault::None, Fault::SameStamp, Fault::NoCompare, Fault::Denied] {
            let what = format!("{fault:?}");
            let stamps = || Registers::new(4, 0, fault).stamped_ones();
            judge(fault != Fault::None, unknown, &what, stamps);
        }
    }
}

#[test]
fn transactions() {
    use registers::Fault;
    for unknown in OUTCOMES {
        for fault in [Fault::None, Fault::TornTransaction, Fault::Denied] {
            let what = format!("{fault:?}");
            let both = || Registers::new(4, 0, fault).with_transactions();
            judge(fault != Fault::None, unknown, &what, both);
        }
    }
}

#[test]
fn counters() {
    use counters::Fault;
    for unknown in OUTCOMES {
        for fault in [Fault::None, Fault::Lost, Fault::Twice, Fault::StaleRead, Fault::Denied] {
            let what = format!("{fault:?}");
            judge(fault != Fault::None, unknown, &what, || Counters::new(3, fault));
        }
    }
}

#[test]
fn sequences() {
    use sequences::Fault;
    for unknown in [0.0, 0.1] {
        for fault in [Fault::None, Fault::Twice, Fault::Backwards] {
            let what = format!("{fault:?}");
            judge(fault != Fault::None, unknown, &what, || Sequences::new(fault));
        }
    }
}

#[test]
fn stores() {
    use etcd::Fault;
    for unknown in OUTCOMES {
        for fault in [
            Fault::None,
            Fault::StaleItems,
            Fault::StaleRead,
            Fault::LostWrite,
            Fault::DoneTwice,
            Fault::WrongBranch,
            Fault::WrongPast,
            Fault::KeyOutlivesLease,
            Fault::EarlyExpiry,
            Fault::WatchGap,
            Fault::WatchRepeats,
            Fault::WatchReorders,
            Fault::WatchEarly,
            Fault::Denied,
        ] {
            let what = format!("{fault:?}");
            // A fault of leases happens only where there are many.
            let calls = match fault {
                Fault::KeyOutlivesLease | Fault::EarlyExpiry => Calls::Leases,
                _ => Calls::All,
            };
            judge(fault != Fault::None, unknown, &what, || Etcd::new(6, fault).only(calls));
        }
    }
}
