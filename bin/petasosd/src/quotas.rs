//! What applications may have at a time: those of a name, and all others.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use petasos_admin as proto;
use petasos_service::ApplicationLimits;
use thiserror::Error;

use crate::policies::NAME_BYTES_MAX;
use crate::processor::Share;

/// The most names with quotas of their own.
const NAMES_MAX: usize = 1024;

/// A quota that cannot be. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct WrongQuota(String);

/// What an application may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    /// At a time.
    pub limits: ApplicationLimits,
    /// Of a processor, over time; all, if there is none.
    pub processor: Option<Share>,
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
        apply(&mut set.limits, quota)?;
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

fn apply(limits: &mut ApplicationLimits, quota: &proto::Quota) -> Result<(), WrongQuota> {
    let fields: [(&str, Option<u64>, &mut usize, RangeInclusive<u64>); 5] = [
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
