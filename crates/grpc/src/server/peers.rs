//! Limits what one peer has of a server, so that others find room: connections, and how often it
//! begins them. [`crate::usage`] limits what it does with them.
//!
//! A connection counts for its address (for its user, at a Unix socket) until the client has proved
//! a name over TLS, and then for that name. So handshakes that prove nothing use up only the quota
//! of their own address, and names behind one address have a quota each.

use core::mem::replace;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_base::{Time, TokenBuckets};
use petasos_tls::Holder;
use tokio::time::Instant;

use crate::refusals::Refusal;
use crate::usage::PeerUse;
use crate::{GrpcConfig, Refusals};

/// So many peers are remembered before it is looked which of them have gone.
const PEERS_MIN: usize = 64;

/// The peers that have connections, and those that lately began some.
pub(super) struct Peers {
    config: GrpcConfig,
    refusals: Refusals,
    started: Instant,
    table: Mutex<Table>,
}

struct Table {
    handshakes: TokenBuckets<Holder>,
    peers: HashMap<Holder, Connections>,
    /// With so many peers, those that are gone are forgotten.
    sweep_at: usize,
}

struct Connections {
    count: usize,
    usage: Arc<PeerUse>,
}

/// A connection that counts for its peer until this is dropped.
pub(super) struct Membership {
    peers: Arc<Peers>,
    holder: Holder,
    /// `None` once it is dropped.
    usage: Option<Arc<PeerUse>>,
}

impl Peers {
    pub(super) fn new(config: GrpcConfig, refusals: Refusals) -> Peers {
        let handshakes = TokenBuckets::new(config.handshakes_per_second);
        let table = Table { handshakes, peers: HashMap::new(), sweep_at: PEERS_MIN };
        Peers { config, refusals, started: Instant::now(), table: Mutex::new(table) }
    }

    /// Counts a new connection, unless its peer has too many, or began too many of late.
    pub(super) fn admit(self: &Arc<Peers>, holder: Holder) -> Result<Membership, Refusal> {
        let now = self.now();
        let mut table = self.table();
        let connections = table.peers.get(&holder).map_or(0, |connections| connections.count);
        if connections >= self.config.connections_per_address_max {
            return Err(Refusal::AddressConnections);
        }
        if !table.handshakes.take(holder.clone(), now) {
            return Err(Refusal::Handshakes);
        }
        let usage = table.join(holder.clone(), self);
        drop(table);
        Ok(Membership { peers: self.clone(), holder, usage: Some(usage) })
    }

    /// At least a second after zero, so that buckets are full at first.
    fn now(&self) -> Time {
        let elapsed = self.started.elapsed().as_nanos().try_into().unwrap_or(u64::MAX / 2);
        Time::from_nanos(elapsed).plus_nanos(1_000_000_000)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    /// A peer that has gone may still have calls: it must not get new shares by coming back.
    fn are_in_use(&self) -> bool {
        self.count > 0 || Arc::strong_count(&self.usage) > 1
    }
}

impl Table {
    /// Counts one more connection.
    fn join(&mut self, holder: Holder, peers: &Peers) -> Arc<PeerUse> {
        if self.peers.len() >= self.sweep_at {
            self.peers.retain(|_, connections| connections.are_in_use());
            self.sweep_at = PEERS_MIN.max(2 * self.peers.len());
        }
        let usage = || Arc::new(PeerUse::new(&peers.config, peers.refusals.clone()));
        let new = || Connections { count: 0, usage: usage() };
        let connections = self.peers.entry(holder).or_insert_with(new);
        connections.count += 1;
        connections.usage.clone()
    }

    /// Counts one less. `usage` is the connection's.
    fn leave(&mut self, holder: Holder, usage: Option<Arc<PeerUse>>) {
        drop(usage);
        let Entry::Occupied(mut connections) = self.peers.entry(holder) else { return };
        connections.get_mut().count -= 1;
        if !connections.get().are_in_use() {
            connections.remove();
        }
    }
}

impl Membership {
    /// Lets the connection count for the name that its client has proved, and no longer for its
    /// address. If it is refused, it counts for the address until it has ended.
    pub(super) fn rename(&mut self, name: Holder) -> Result<(), Refusal> {
        let (peers, now) = (&self.peers, self.peers.now());
        let mut table = peers.table();
        if !table.handshakes.take(name.clone(), now) {
            return Err(Refusal::Handshakes);
        }
        table.handshakes.give_back(&self.holder);
        let connections = table.peers.get(&name).map_or(0, |connections| connections.count);
        if connections >= peers.config.connections_per_name_max {
            return Err(Refusal::NameConnections);
        }
        let usage = table.join(name.clone(), peers);
        let (holder, usage) = (replace(&mut self.holder, name), self.usage.replace(usage));
        table.leave(holder, usage);
        Ok(())
    }

    /// What the peer uses, over all of its connections.
    pub(super) fn usage(&self) -> &Arc<PeerUse> {
        self.usage.as_ref().expect("it is not dropped")
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let (holder, usage) = (self.holder.clone(), self.usage.take());
        self.peers.table().leave(holder, usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(of_address: usize, of_name: usize, handshakes: u32) -> Arc<Peers> {
        let config = GrpcConfig {
            connections_per_address_max: of_address,
            connections_per_name_max: of_name,
            handshakes_per_second: handshakes,
            ..GrpcConfig::default()
        };
        Arc::new(Peers::new(config, Refusals::default()))
    }

    fn address(ip: &str) -> Holder {
        Holder::of(ip.parse().expect("an address"), None)
    }

    fn name(name: &str) -> Holder {
        Holder::Name(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_is_one_peer_and_who_is_gone_takes_no_room() {
        let peers = peers(2, 9, 100);
        let admit = |ip: &str| peers.admit(address(ip));
        let held = [admit("2001:db8::1"), admit("2001:db8::2:1")];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(admit("2001:db8::3").err(), Some(Refusal::AddressConnections));
        assert!(admit("2001:db8:0:1::3").is_ok(), "another network has its own");
        drop(held);
        assert!(peers.table().peers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_one_peer_wherever_it_calls_from_and_leaves_its_address_room() {
        let peers = peers(1, 2, 100);
        let named = |ip: &str, who: &str| {
            let mut membership = peers.admit(address(ip))?;
            membership.rename(name(who)).map(|()| membership)
        };
        let held = [named("10.0.0.1", "alice"), named("10.0.0.2", "alice")];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(named("10.0.0.3", "alice").err(), Some(Refusal::NameConnections));
        let [Ok(one), Ok(other)] = &held else { unreachable!("both were admitted") };
        assert!(Arc::ptr_eq(one.usage(), other.usage()), "one name has one quota");
        assert!(named("10.0.0.1", "bob").is_ok(), "the address has its room again");
        // Who still has calls is not forgotten, and has no new share when it comes back.
        let call = one.usage().begin_call();
        drop(held);
        let back = named("10.0.0.3", "alice").expect("there is room");
        assert!(call.is_some() && back.usage().calls() == 1);
        drop((call, back));
        assert!(peers.table().peers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn handshakes_of_a_name_are_not_its_addresses() {
        let peers = peers(9, 9, 3);
        let named = |who: &str| {
            let mut membership = peers.admit(address("10.0.0.1"))?;
            membership.rename(name(who))
        };
        assert!((0..3).all(|_| named("alice").is_ok()));
        assert!((0..2).all(|_| named("bob").is_ok()), "names have a rate each");
        // What the name is refused counts for the address.
        assert_eq!(named("alice"), Err(Refusal::Handshakes));
        let refused = (0..9).filter(|_| peers.admit(address("10.0.0.1")).is_err()).count();
        assert_eq!(refused, 7);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert!(named("alice").is_ok());
    }
}
