//! What sessions cost in memory.

use crate::joined::*;

const SESSIONS: usize = 10_000;

#[test]
fn issue_10_sessions_with_one_call_at_a_time_cost_less_than_1_kib_each() {
    let mut pair = Joined::new();
    let mut sessions = vec![pair.session];
    while sessions.len() < SESSIONS {
        sessions.push(connect(&mut pair.client, &mut pair.server));
    }
    for round in 0..3 {
        for (at, session) in sessions.iter().enumerate() {
            pair.session = *session;
            pair.call(ECHO, &pattern(32), (round * SESSIONS + at) as u64);
            if at % 64 == 63 || at == SESSIONS - 1 {
                pair.run(2);
            }
        }
    }
    assert_eq!(pair.client.state().outcomes.len(), SESSIONS * 3);
    for (name, memory) in [("client", pair.client.memory()), ("server", pair.server.memory())] {
        let per_session = memory.session_bytes / SESSIONS;
        println!("{name}: {per_session} bytes a session");
        assert!(per_session < 1024, "{name}: {per_session}");
    }
}

#[test]
fn ten_thousand_used_sessions_cost_less_than_2_kib_each() {
    let mut pair = Joined::new();
    let mut sessions = vec![pair.session];
    while sessions.len() < SESSIONS {
        sessions.push(connect(&mut pair.client, &mut pair.server));
    }
    for (at, session) in sessions.iter().enumerate() {
        pair.session = *session;
        for slot in 0..8 {
            pair.call(ECHO, &pattern(32), (at * 8 + slot) as u64);
        }
        if at % 32 == 31 || at == SESSIONS - 1 {
            pair.run(2);
        }
    }
    assert_eq!(pair.client.state().outcomes.len(), SESSIONS * 8);
    for (name, memory) in [("client", pair.client.memory()), ("server", pair.server.memory())] {
        let per_session = memory.session_bytes / SESSIONS;
        let pooled = (memory.pool.lent_bytes + memory.pool.kept_bytes) / SESSIONS;
        println!("{name}: {per_session} bytes a session, and {pooled} in pooled buffers");
        assert!(per_session < 2048, "{name}: {per_session}");
        assert!(pooled <= 8 * 128 + 64, "{name}: {pooled} pooled");
    }
}
