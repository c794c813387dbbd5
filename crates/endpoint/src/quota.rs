//! How many of an endpoint's server sessions one peer holds, and how many slots in them: each slot
//! can have a request whose handler has not answered yet.
//!
//! A peer is counted by the address of its control connection (for IPv6, its /64) and, over TLS, by
//! its name as well: whichever is fuller decides. So neither many addresses with one certificate
//! nor many certificates at one address take the sessions of all.
//!
//! Invariant: what a session was counted for is given back exactly once, when it is dropped.

use std::collections::HashMap;
use std::net::IpAddr;

use petasos_tls::Identity;

use crate::source::source;

/// For whom a session counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Address(IpAddr),
    /// The first name of a certificate, or all of one without names.
    Name(Vec<u8>),
}

/// What one peer may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerLimits {
    pub(crate) sessions_max: u32,
    /// Of all its sessions together: so many of its requests can wait for their handlers.
    pub(crate) slots_max: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    sessions: u32,
    slots: u32,
}

/// Server sessions and their slots, by their holders.
#[derive(Debug, Default)]
pub(crate) struct SessionQuota {
    held: HashMap<Holder, Held>,
}

impl SessionQuota {
    /// Counts a session with `slots` for the peer at `address`, unless it would hold more than
    /// `limits`. Returns whether it was counted.
    pub(crate) fn take(
        &mut self,
        address: IpAddr,
        identity: Option<&Identity>,
        slots: u32,
        limits: PeerLimits,
    ) -> bool {
        let full = |holder| {
            let held = self.held.get(&holder).copied().unwrap_or_default();
            held.sessions >= limits.sessions_max || held.slots + slots > limits.slots_max
        };
        if holders(address, identity).any(full) {
            return false;
        }
        for holder in holders(address, identity) {
            let held = self.held.entry(holder).or_default();
            held.sessions += 1;
            held.slots += slots;
        }
        true
    }

    /// Gives back what [`SessionQuota::take`] counted.
    pub(crate) fn give(&mut self, address: IpAddr, identity: Option<&Identity>, slots: u32) {
        for holder in holders(address, identity) {
            let held = self.held.get_mut(&holder).expect("a session is counted while it lives");
            held.sessions -= 1;
            held.slots -= slots;
            if held.sessions == 0 {
                self.held.remove(&holder);
            }
        }
    }
}

fn holders(address: IpAddr, identity: Option<&Identity>) -> impl Iterator<Item = Holder> {
    let name = identity.map(|identity| match identity.names.first() {
        Some(name) => name.clone().into_bytes(),
        None => identity.certificate.clone(),
    });
    [Some(Holder::Address(source(address))), name.map(Holder::Name)].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Identity {
        Identity { names: vec![name.to_owned()], certificate: Vec::new() }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("it is an address")
    }

    const LIMITS: PeerLimits = PeerLimits { sessions_max: 3, slots_max: 20 };

    #[test]
    fn an_address_holds_so_many_and_others_theirs() {
        let mut quota = SessionQuota::default();
        assert!((0..3).all(|_| quota.take(ip("10.0.0.1"), None, 1, LIMITS)));
        assert!(!quota.take(ip("10.0.0.1"), None, 1, LIMITS));
        assert!(quota.take(ip("10.0.0.2"), None, 1, LIMITS));
        quota.give(ip("10.0.0.1"), None, 1);
        assert!(quota.take(ip("10.0.0.1"), None, 1, LIMITS));
    }

    #[test]
    fn slots_count_as_well() {
        let mut quota = SessionQuota::default();
        assert!(quota.take(ip("10.0.0.1"), None, 16, LIMITS));
        assert!(!quota.take(ip("10.0.0.1"), None, 8, LIMITS));
        assert!(quota.take(ip("10.0.0.1"), None, 4, LIMITS));
        quota.give(ip("10.0.0.1"), None, 16);
        assert!(quota.take(ip("10.0.0.1"), None, 8, LIMITS));
    }

    #[test]
    fn a_name_holds_so_many_at_all_addresses_together() {
        let mut quota = SessionQuota::default();
        let (alice, bob) = (named("alice"), named("bob"));
        for host in 1..=3 {
            assert!(quota.take(ip(&format!("10.0.0.{host}")), Some(&alice), 1, LIMITS));
        }
        assert!(!quota.take(ip("10.0.0.4"), Some(&alice), 1, LIMITS));
        assert!(quota.take(ip("10.0.0.4"), Some(&bob), 1, LIMITS));
    }

    #[test]
    fn nobody_is_remembered_without_sessions() {
        let mut quota = SessionQuota::default();
        for host in 0..100 {
            let at = ip(&format!("2001:db8:{host}::1"));
            assert!(quota.take(at, Some(&named("alice")), 8, LIMITS));
            quota.give(at, Some(&named("alice")), 8);
        }
        assert!(quota.held.is_empty());
    }
}
