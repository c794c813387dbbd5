//! How a member begins.

use petasos_journal::Files;
use petasos_raft::{Replica, Restored, Settings};

use super::Member;
use super::keeper::Keeper;
use super::reads::Reads;
use super::snapshots::Snapshots;
use super::submit::Batch;
use crate::log::Log;
use crate::machine::StateMachine;
use crate::state::Replicated;

/// What a member is told when it is made.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// The replica's.
    pub settings: Settings,
    /// A snapshot is taken after so many bytes of entries.
    pub snapshot_bytes: usize,
}

/// What a member begins with.
pub struct Parts<M, L, F, N> {
    /// Where its log is.
    pub log: L,
    /// What the replica goes on from.
    pub restored: Restored,
    /// The state, after the last entry of the snapshot that `restored` begins behind.
    pub state: Replicated<M>,
    /// Where its snapshots are.
    pub files: F,
    /// Makes an empty machine.
    pub machine: N,
}

impl<M: StateMachine + Send + 'static, L: Log, C> Member<M, L, C> {
    /// Makes a member. `wake` is called, from a thread of its own, when a turn is due; `seed`
    /// decides its election timeouts.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new<F: Files, N: Fn() -> M + Send + 'static>(
        config: MemberConfig,
        parts: Parts<M, L, F, N>,
        now_us: u64,
        seed: u64,
        wake: impl Fn() + Send + 'static,
    ) -> std::io::Result<Member<M, L, C>> {
        let MemberConfig { settings, snapshot_bytes } = config;
        let Parts { log, restored, state, files, machine } = parts;
        let group = settings.group;
        let saved = Some(state.applied()).filter(|applied| *applied > 0);
        Ok(Member {
            replica: Replica::new(settings, restored, now_us, seed),
            log,
            state,
            batch: Batch::default(),
            proposed: Default::default(),
            reads: Reads::default(),
            waiting: Vec::new(),
            snapshots: Snapshots::new(group, snapshot_bytes, saved),
            keeper: Keeper::start(files, group, machine, wake)?,
            actions: Default::default(),
            bytes: Vec::new(),
            message: Vec::new(),
            now_us,
            leads_since_us: None,
            proposed_us: now_us,
            is_full: false,
            counters: Default::default(),
        })
    }
}
