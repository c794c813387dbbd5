//! What applications may have at a time: those of a name, and all others.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use petasos_admin as proto;
use petasos_attach::Terms;
use petasos_attach::hello::Limits;
use petasos_service::ApplicationLimits;
use thiserror::Error;

use crate::member::GROW_BYTES;
use crate::policies::NAME_BYTES_MAX;
use crate::processor::Share;

/// The most names with quotas of their own.
const NAMES_MAX: usize = 1024;

/// The least bytes of a heap: what an application gets at first.
const HEAP_BYTES_MIN: u64 = GROW_BYTES;
/// The most: a heap's range. What was given up is charged, so the range has room for a quota.
const HEAP_BYTES_MAX: u64 = 1 << 34;

/// A quota that cannot be. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct WrongQuota(String);

/// What an application may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    /// At a time.
    pub limits: ApplicationLimits,
    /// Ever.
    pub heaps: HeapQuotas,
    /// Of a processor, over time; all, if there is none.
    pub processor: Option<Share>,
}

/// How large an application's heaps may become, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapQuotas {
    /// What it sends from.
    pub send: usize,
    /// What it receives in.
    pub receive: usize,
}

impl Default for HeapQuotas {
    fn default() -> HeapQuotas {
        HeapQuotas::from(&Limits::default())
    }
}

impl From<&Limits> for HeapQuotas {
    fn from(limits: &Limits) -> HeapQuotas {
        let [send, receive] = [limits.send, limits.receive].map(|heap| heap.quota_bytes as usize);
        HeapQuotas { send, receive }
    }
}

impl Quota {
    /// On what terms an application with this quota is taken.
    pub fn terms(&self) -> Terms {
        let Quota { limits, heaps, .. } = self;
        let mut terms = Terms { lanes_max: 1, ..Terms::default() };
        let its = &mut terms.limits;
        (its.send.range_bytes, its.receive.range_bytes) = (HEAP_BYTES_MAX, HEAP_BYTES_MAX);
        its.send.quota_bytes = heaps.send as u64;
        its.receive.quota_bytes = heaps.receive as u64;
        // A library that knows the limit waits, instead of being refused.
        let calls_max = limits.calls_max.min(limits.items_max);
        its.calls_max = u32::try_from(calls_max).expect("the range of calls has such numbers");
        // One stream does not take all that may be held, or received.
        let stream_bytes = limits.held_bytes_max.min(heaps.receive) as u64 / 4;
        its.grant_bytes = its.grant_bytes.min(stream_bytes).max(1);
        terms
    }
}

/// What applications get that attach.
#[derive(Clone, Default)]
pub struct Quotas {
    others: Quota,
    named: BTreeMap<String, Quota>,
}

impl Quotas {
    /// What an application of this name may have.
    pub fn of(&self, name: &str) -> Quota {
        self.named.get(name).copied().unwrap_or(self.others)
    }

    /// All of them, the first for names without one of their own, which is empty.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Quota)> {
        let named = self.named.iter().map(|(name, quota)| (&**name, quota));
        std::iter::once(("", &self.others)).chain(named)
    }

    /// Sets what a quota says.
    ///
    /// # Errors
    /// [`WrongQuota`]: a value is out of its range, or there are too many names.
    pub fn set(&mut self, quota: &proto::Quota) -> Result<(), WrongQuota> {
        let name = quota.application();
        let mut set = self.of(name);
        apply(&mut set, quota)?;
        if let Some(percent) = quota.processor_percent() {
            let share = Share::new(percent);
            set.processor = share.map_err(|error| WrongQuota(error.to_string()))?;
        }
        if name.is_empty() {
            self.others = set;
            return Ok(());
        }
        let is_full = self.named.len() >= NAMES_MAX && !self.named.contains_key(name);
        if is_full || name.len() > NAME_BYTES_MAX {
            let what =
                format!("quotas are for at most {NAMES_MAX} names of {NAME_BYTES_MAX} bytes");
            return Err(WrongQuota(what));
        }
        self.named.insert(name.to_owned(), set);
        Ok(())
    }

    /// Removes the quota of a name.
    ///
    /// # Errors
    /// [`WrongQuota`]: it has none.
    pub fn remove(&mut self, name: &str) -> Result<(), WrongQuota> {
        let removed = self.named.remove(name).map(drop);
        removed.ok_or_else(|| WrongQuota(format!("`{name}` has no quota of its own")))
    }
}

fn apply(set: &mut Quota, quota: &proto::Quota) -> Result<(), WrongQuota> {
    let (limits, heaps) = (&mut set.limits, &mut set.heaps);
    let heap_bytes = HEAP_BYTES_MIN..=HEAP_BYTES_MAX;
    let fields: [(&str, Option<u64>, &mut usize, RangeInclusive<u64>); 8] = [
        ("items_max", quota.items_max(), &mut limits.items_max, 1..=1 << 20),
        (
            "message_bytes_max",
            quota.message_bytes_max(),
            &mut limits.message_bytes_max,
            1 << 10..=1 << 30,
        ),
        (
            "metadata_bytes_max",
            quota.metadata_bytes_max(),
            &mut limits.metadata_bytes_max,
            0..=1 << 20,
        ),
        ("held_bytes_max", quota.held_bytes_max(), &mut limits.held_bytes_max, 1 << 10..=1 << 36),
        ("descriptors_max", quota.descriptors_max(), &mut limits.descriptors_max, 1..=1 << 20),
        ("calls_max", quota.calls_max(), &mut limits.calls_max, 1..=1 << 20),
        ("send_heap_bytes", quota.send_heap_bytes(), &mut heaps.send, heap_bytes.clone()),
        ("receive_heap_bytes", quota.receive_heap_bytes(), &mut heaps.receive, heap_bytes),
    ];
    for (name, value, field, range) in fields {
        let Some(value) = value else { continue };
        if !range.contains(&value) {
            let (least, most) = (range.start(), range.end());
            let what = format!("{name} is {least} to {most}, and not {value}");
            return Err(WrongQuota(what));
        }
        *field = usize::try_from(value).expect("ranges fit an address");
    }
    // What waits to leave the host is held, too; and what is lent is held by the application.
    limits.beyond_bytes_max = limits.held_bytes_max / 2;
    limits.lent_bytes_max = limits.held_bytes_max / 2;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(name: &str, items: u64) -> petasos::Msg<proto::Quota> {
        let mut quota = proto::Quota::new();
        quota.edit().set_application(name).set_items_max(items);
        quota
    }

    #[test]
    fn heaps_and_calls_are_what_an_application_is_told() {
        let mut quotas = Quotas::default();
        let before = Terms { lanes_max: 1, ..Terms::default() };
        assert_eq!(quotas.of("shop").terms(), before, "nothing is set");
        let mut set = |edit: &dyn Fn(&mut proto::QuotaMut<'_>)| {
            let mut quota = proto::Quota::new();
            let mut mut_quota = quota.edit();
            mut_quota.set_application("shop");
            edit(&mut mut_quota);
            let done = quotas.set(&quota);
            done.map(|()| quotas.of("shop").terms()).map_err(|error| error.to_string())
        };
        let terms = set(&|quota| {
            quota.set_calls_max(7).set_send_heap_bytes(1 << 20).set_receive_heap_bytes(2 << 20);
        });
        let limits = terms.as_ref().expect("in range").limits;
        assert_eq!((limits.send.quota_bytes, limits.receive.quota_bytes), (1 << 20, 2 << 20));
        assert_eq!((limits.calls_max, limits.grant_bytes), (7, 1 << 19));
        assert!(terms.is_ok_and(|terms| terms.is_possible()));
        // Where fewer items are let in, no more calls are.
        let fewer = set(&|quota| {
            quota.set_items_max(3);
        });
        assert_eq!(fewer.map(|terms| terms.limits.calls_max), Ok(3));
        for (wrong, why) in [
            (
                set(&|quota| {
                    quota.set_calls_max(0);
                }),
                "calls_max is 1 to 1048576",
            ),
            (
                set(&|quota| {
                    quota.set_send_heap_bytes((1 << 20) - 1);
                }),
                "send_heap_bytes is 1048576 to 17179869184, and not 1048575",
            ),
            (
                set(&|quota| {
                    quota.set_receive_heap_bytes(u64::MAX);
                }),
                "receive_heap_bytes is 1048576 to 17179869184",
            ),
        ] {
            let error = wrong.expect_err("out of range");
            assert!(error.starts_with(why), "{error}");
        }
        let most = set(&|quota| {
            quota.set_calls_max(1 << 20).set_items_max(1 << 20);
            quota.set_send_heap_bytes(1 << 34).set_receive_heap_bytes(1 << 34);
        });
        assert!(most.is_ok_and(|terms| terms.is_possible()));
    }

    fn items(quotas: &Quotas, name: &str) -> usize {
        quotas.of(name).limits.items_max
    }

    #[test]
    fn processors_are_shared_by_percent() {
        let mut quotas = Quotas::default();
        let mut set = |percent: f64| {
            let mut quota = proto::Quota::new();
            quota.edit().set_application("shop").set_processor_percent(percent);
            quotas.set(&quota).map(|()| quotas.of("shop").processor.map(Share::percent))
        };
        assert_eq!(set(12.5).expect("it is a share"), Some(12.5));
        assert_eq!(set(100.0).expect("it is all"), None);
        for wrong in [0.0, -3.0, f64::NAN] {
            let error = set(wrong).expect_err("it is none").to_string();
            assert!(error.starts_with("processor_percent is at least 0.1"), "{error}");
        }
    }

    #[test]
    fn a_name_has_its_own_or_what_others_have() {
        let mut quotas = Quotas::default();
        quotas.set(&quota("", 100)).expect("in range");
        quotas.set(&quota("shop", 7)).expect("in range");
        assert_eq!([items(&quotas, "shop"), items(&quotas, "other")], [7, 100]);
        let held = ApplicationLimits::default().held_bytes_max;
        assert_eq!(quotas.of("shop").limits.held_bytes_max, held);
        quotas.remove("shop").expect("it was there");
        assert_eq!(items(&quotas, "shop"), 100);
        assert!(quotas.remove("shop").is_err());
    }

    #[test]
    fn what_is_out_of_range_changes_nothing_and_names_are_bounded() {
        let mut quotas = Quotas::default();
        for wrong in [0, (1 << 20) + 1, u64::MAX] {
            let error = quotas.set(&quota("", wrong)).expect_err("out of range");
            assert!(error.to_string().starts_with("items_max is 1 to 1048576"), "{error}");
        }
        assert_eq!(items(&quotas, ""), ApplicationLimits::default().items_max);
        for index in 0..NAMES_MAX {
            quotas.set(&quota(&index.to_string(), 1)).expect("there is room");
        }
        assert!(quotas.set(&quota("more", 1)).is_err());
        quotas.set(&quota("0", 2)).expect("it is there already");
        assert!(quotas.set(&quota(&"x".repeat(NAME_BYTES_MAX + 1), 1)).is_err());
    }
}
