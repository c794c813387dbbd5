//! The two halves of a session in an experiment. Only this module uses the protocol's state
//! machines.
//!
//! Messages have lengths and no contents. Handlers answer in the turn in which the request is
//! complete. The rules for every session are checked during the run.

mod client;
mod server;

use petasos_proto::SessionParams;

use super::plan::SessionPlan;

pub(super) use client::Client;
pub(super) use server::Server;

/// Identifies both halves of a session, by the index of each half within its thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) client: u32,
    pub(super) server: u32,
}

/// The tag of both halves. A constant suffices, because nothing is forged here.
const TAG: u32 = 0x0abc_def1;

fn params(plan: &SessionPlan, peer_session: u32, receive_frames: u32) -> SessionParams {
    SessionParams {
        peer_session,
        peer_tag: TAG,
        local_tag: TAG,
        slots: plan.slots,
        credits: plan.config.credits.min(plan.config.credits_first),
        credits_max: plan.config.credits,
        // The other half is for unexpected packets: first packets, short messages, answers.
        room_packets: (receive_frames / 2).max(1),
        payload_bytes: plan.config.payload_bytes,
        request_bytes_max: plan.request_bytes,
        response_bytes_max: plan.response_bytes,
        recovery: plan.config.recovery,
        checksum: false,
    }
}

/// Bytes of packet `index` of a message of `bytes`.
#[inline]
fn payload_of(plan: &SessionPlan, index: u32, bytes: u32) -> u32 {
    bytes.saturating_sub(index * plan.config.payload_bytes).min(plan.config.payload_bytes)
}
