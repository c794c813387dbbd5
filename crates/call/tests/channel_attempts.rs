//! Where attempts of a call go.

use std::net::{IpAddr, Ipv4Addr};

use petasos_base::{Rng, Time};
use petasos_call::balance::Balance;
use petasos_call::channel::{
    Address, Avoid, CallOptions, ChannelConfig, ChannelCore, Pick, SessionIndex,
};

/// A channel with a session of so many slots for each of these ports of servers.
fn servers(balance: Balance, ports: &[u16], slots: u32) -> (ChannelCore, Vec<SessionIndex>) {
    let mut core = ChannelCore::new(ChannelConfig { balance, ..ChannelConfig::default() });
    let address = |port: &u16| Address::new(IpAddr::V4(Ipv4Addr::LOCALHOST), *port);
    core.handle_addresses(&ports.iter().map(address).collect::<Vec<_>>(), Time::ZERO);
    core.connect();
    while core.poll_action(Time::ZERO).is_some() {}
    let connected = |port| {
        let peer = core.find(&address(port)).expect("it is on the list");
        core.handle_connected(peer, slots, Time::ZERO).expect("it is wanted")
    };
    let sessions = ports.iter().map(connected).collect();
    (core, sessions)
}

fn pick(core: &mut ChannelCore, call: CallOptions) -> Pick {
    core.pick(call, Time::ZERO, &mut Rng::new(1))
}

#[test]
fn attempts_go_to_servers_that_none_has_been_at() {
    for balance in [Balance::PowerOfTwo, Balance::RoundRobin, Balance::Prequal] {
        let (mut core, all) = servers(balance, &[1, 2, 3], 200);
        for _ in 0..30 {
            let mut avoid = Avoid::default();
            for _ in 0..3 {
                let call = CallOptions { avoid, ..CallOptions::default() };
                let Pick::Session(session) = pick(&mut core, call) else { panic!("there is room") };
                assert!(!avoid.contains(session), "{balance:?}");
                avoid.add(session);
            }
            assert!(all.iter().all(|session| avoid.contains(*session)), "{balance:?}");
            // All have been tried: rather not the latest again.
            let mut latest = avoid;
            latest.add(all[1]);
            let call = CallOptions { avoid: latest, ..CallOptions::default() };
            assert_ne!(pick(&mut core, call), Pick::Session(all[1]), "{balance:?}");
        }
    }
}

#[test]
fn attempts_at_one_server_go_to_sessions_that_none_has_been_in() {
    let (mut core, sessions) = servers(Balance::PickFirst, &[1, 1, 1], 4);
    let mut avoid = Avoid::default();
    for session in sessions.iter().copied() {
        let call = CallOptions { avoid, ..CallOptions::default() };
        assert_eq!(pick(&mut core, call), Pick::Session(session));
        avoid.add(session);
    }
    let call = CallOptions { avoid, ..CallOptions::default() };
    assert_eq!(pick(&mut core, call), Pick::Session(sessions[0]), "rather that than none");
    let others = CallOptions { avoid: sessions[0].into(), ..CallOptions::default() };
    assert_eq!(pick(&mut core, others), Pick::Session(sessions[1]));
}
