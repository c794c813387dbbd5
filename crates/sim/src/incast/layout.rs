//! The roles of threads: thread 0 is the receiver, followed by the senders and then the victims.

use petasos_base::Rng;

use super::IncastConfig;
use crate::fabric::{LoadPlan, Plan, SessionConfig, SessionPlan};

/// The receiver's thread, on host 0.
pub(super) const RECEIVER: u32 = 0;
/// The group of the senders.
pub(super) const SENDERS: u32 = 0;
/// The group of the victims.
pub(super) const VICTIMS: u32 = 1;

pub(super) fn plan(config: &IncastConfig) -> Plan {
    // Not the seed of the run itself: places must not correlate with what happens in the run.
    let mut rng = Rng::new(config.seed.rotate_left(32) ^ 0x1ca5);
    let mut others: Vec<u32> = (1..config.shape.hosts()).collect();
    shuffle(&mut others, &mut rng);
    let mut plan = Plan { threads: vec![0], groups: 2, ..Plan::default() };
    for sender in 0..config.senders as usize {
        let congestion = config.mix[sender % config.mix.len()];
        let session = SessionConfig { congestion, ..config.session };
        add_sender(&mut plan, config, session, others[sender % others.len()], &mut rng);
    }
    if config.victims.is_some() && others.len() > 1 {
        add_victims(&mut plan, config, &others, &mut rng);
    }
    plan
}

fn add_sender(
    plan: &mut Plan,
    config: &IncastConfig,
    session: SessionConfig,
    host: u32,
    rng: &mut Rng,
) {
    let thread = plan.threads.len() as u32;
    plan.threads.push(host);
    plan.sessions.push(SessionPlan {
        client: thread,
        server: RECEIVER,
        config: session,
        slots: 1,
        request_bytes: config.request_bytes,
        response_bytes: config.response_bytes,
    });
    let start_nanos = rng.below(config.start_spread_nanos.max(1));
    plan.loads.push(LoadPlan { thread, group: SENDERS, outstanding: 1, start_nanos });
}

fn add_victims(plan: &mut Plan, config: &IncastConfig, hosts: &[u32], rng: &mut Rng) {
    let victims = config.victims.expect("there are victims");
    let first = plan.threads.len() as u32;
    let count = hosts.len() as u32;
    plan.threads.extend(hosts);
    let session = |client, server| SessionPlan {
        client,
        server,
        config: config.session,
        slots: 1,
        request_bytes: victims.request_bytes,
        response_bytes: victims.response_bytes,
    };
    // Distances around the ring of victims: distinct, never 0, and the same for all, so that each
    // is called by as many as it calls.
    let mut distances: Vec<u32> = (1..count).collect();
    shuffle(&mut distances, rng);
    distances.truncate(victims.peers as usize);
    for client in 0..count {
        let servers = distances.iter().map(|distance| first + (client + distance) % count);
        let client = first + client;
        plan.sessions.extend(servers.map(|server| session(client, server)));
        plan.loads.push(LoadPlan {
            thread: client,
            group: VICTIMS,
            outstanding: 1,
            start_nanos: 0,
        });
    }
}

fn shuffle(items: &mut [u32], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}
