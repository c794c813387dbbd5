//! Limits the connections of one address, or of one user at a Unix socket, so that others find
//! room. An IPv6 /64 counts as one address, since its owner can use all of it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of each address.
#[derive(Clone)]
pub(super) struct Quota {
    per_address_max: usize,
    counts: Arc<Mutex<HashMap<Holder, usize>>>,
}

/// A connection that counts for its address until this is dropped.
pub(super) struct Counted {
    quota: Quota,
    holder: Holder,
}

/// For whom a connection counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    Address(IpAddr),
    User(u32),
}

impl Holder {
    /// Who has an address.
    pub(super) fn of(address: SocketAddr) -> Holder {
        Holder::Address(match address.ip().to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64))),
            ip => ip,
        })
    }
}

impl Quota {
    pub(super) fn new(per_address_max: usize) -> Quota {
        Quota { per_address_max, counts: Arc::default() }
    }

    /// Counts a connection; `None` if its holder already has the maximum.
    pub(super) fn take(&self, holder: Holder) -> Option<Counted> {
        let mut counts = self.counts();
        let count = counts.entry(holder).or_default();
        if *count >= self.per_address_max {
            return None;
        }
        *count += 1;
        Some(Counted { quota: self.clone(), holder })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.quota.counts();
        let Some(count) = counts.get_mut(&self.holder) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_one_address_and_mapped_ones_are_what_they_map() {
        let quota = Quota::new(2);
        let of = |ip: &str| Holder::of(SocketAddr::new(ip.parse().expect("an address"), 1));
        let take = |ip: &str| quota.take(of(ip));
        let held = [take("2001:db8::1"), take("2001:db8::2:1")];
        assert!(held.iter().all(Option::is_some));
        assert!(take("2001:db8::3").is_none(), "the /64 has its share");
        assert!(take("2001:db8:0:1::3").is_some(), "another has its own");
        let mapped = [take("::ffff:10.0.0.1"), take("10.0.0.1")];
        assert!(mapped.iter().all(Option::is_some) && take("10.0.0.1").is_none());
        drop((held, mapped));
        assert!(quota.counts().is_empty(), "who is gone takes no room");
    }
}
