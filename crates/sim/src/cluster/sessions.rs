//! Sessions that the harness itself sets up and fails instantly, as an ideal control protocol
//! would.

use std::sync::Arc;

use petasos_base::Rng;
use petasos_control::AcceptParams;
use petasos_endpoint::{Cipher, Identity, SessionSecret, SessionSecurity};
use petasos_netio::memory::MemoryIo;

use super::check::{Event, Life};
use super::node::{Node, peer_id};
use crate::World;

/// Opens `count` sessions from `client` to `server`, both alive. They are sealed if there are
/// `keys`.
pub(super) fn connect(
    world: &mut World<Node>,
    (client, server): (u32, u32),
    count: u32,
    mut keys: Option<&mut Rng>,
) {
    let lives = (world.host(client).app().life, world.host(server).app().life);
    for _ in 0..count {
        let security = keys.as_mut().map(|keys| security(keys));
        let offer = world.with_host(client, |node, _| {
            let to = MemoryIo::address(server);
            let offer = node.endpoint.open_session(to, Some(peer_id(lives.1)));
            let offer = offer.expect("the hub reaches every port");
            offer.expect("the scenario has room for its sessions")
        });
        let granted = world.with_host(server, |node, _| {
            let ip = MemoryIo::address(client).ip();
            let (params, peer) = (&offer.params, Some(peer_id(lives.0)));
            let granted = node.endpoint.accept_secured(params, ip, peer, security.clone());
            let granted = granted.expect("the scenario has room for its sessions");
            node.retained_bytes_max += retained_bytes_max(&granted);
            granted
        });
        world.with_host(client, |node, _| {
            let ip = MemoryIo::address(server).ip();
            let ready = node.endpoint.establish_secured(&offer, &granted, ip, security);
            assert!(ready.expect("the hub reaches every port"), "the session waits for this");
            let peers = &mut node.endpoint.state_mut().peers;
            peers.entry(server).or_insert((lives.1, Vec::new())).1.push(offer.session);
        });
    }
}

/// The secrets that TLS would give both ends of a session.
pub fn security(keys: &mut Rng) -> SessionSecurity {
    let identity = Identity { names: vec!["simulated".to_owned()], certificate: Vec::new() };
    let secret = core::array::from_fn(|_| keys.next_u64() as u8);
    let secret = SessionSecret::new(Cipher::Aes128Gcm, secret);
    SessionSecurity { identity: Arc::new(identity), secret }
}

/// Bytes that the slots of a server session can hold when no call is open.
pub(super) fn retained_bytes_max(granted: &AcceptParams) -> usize {
    let message_bytes_max = granted.request_bytes_max.max(granted.response_bytes_max) as usize;
    usize::from(granted.slots) * message_bytes_max.next_power_of_two()
}

/// Tells every other living host that `dead` has failed.
pub(super) fn fail(world: &mut World<Node>, dead: Life) {
    for number in 0..world.topology().hosts() {
        if number != dead.host && world.is_alive(number) {
            fail_at(world, number, dead);
        }
    }
}

/// Tells host `number` that `dead` has failed.
pub(super) fn fail_at(world: &mut World<Node>, number: u32, dead: Life) {
    world.with_host(number, |node, now| {
        let app = node.endpoint.state_mut();
        let lost = app.peers.extract_if(dead.host..=dead.host, |_, (life, _)| *life == dead);
        let lost: Vec<_> = lost.flat_map(|(_, (_, sessions))| sessions).collect();
        app.note(now, Event::PeerFailed { client: app.life, server: dead });
        node.endpoint.fail_peer(peer_id(dead));
        lost.into_iter().for_each(|session| node.endpoint.close_session(session));
    });
}

/// Closes every session at both ends, including those that depend on these connections.
pub(super) fn close_all(world: &mut World<Node>, connections: &[u64]) {
    let lives: Vec<Life> = world.hosts().map(|node| node.app().life).collect();
    for number in 0..world.topology().hosts() {
        if !world.is_alive(number) {
            continue;
        }
        world.with_host(number, |node, _| {
            let peers = core::mem::take(&mut node.endpoint.state_mut().peers);
            let sessions = peers.into_values().flat_map(|(_, sessions)| sessions);
            sessions.for_each(|session| node.endpoint.close_session(session));
            lives.iter().for_each(|life| node.endpoint.fail_peer(peer_id(*life)));
            connections.iter().for_each(|number| node.endpoint.fail_peer(*number));
        });
    }
}
