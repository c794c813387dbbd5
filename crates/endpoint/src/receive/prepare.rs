//! Steps that a method takes for each of its requests before any request of a turn is handled.
//!
//! HERD's servers handle requests in a pipeline: while one waits for memory, others are computed. A
//! turn is such a pipeline already filled, and it does not wait for more: all steps of all of its
//! requests are taken, and then the requests are handled.
//!
//! Steps see bytes that nobody has checked: a packet may be forged, repeated, or for a session that
//! is gone. They get the state to read alone, so nothing changes by them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrayvec::ArrayVec;
use petasos_netio::{Frame, Frames};
use petasos_wire::{Kind, Packet};

use crate::core::{Core, PrepareStep, Prepared};

/// Requests whose steps are taken together: more would drive each other's lines out of the first
/// cache.
const TOGETHER: usize = 64;

/// A request with the steps of its method.
type Ready<'f, 'p, S> = (&'p [PrepareStep<S>], &'f [u8]);

/// Takes the steps for all requests among `frames`. A panic in one is counted, and ends that.
#[cold]
pub(crate) fn prepare_frames<S>(state: &S, core: &mut Core<S>, frames: Frames<'_>) {
    let Some(prepared) = &core.prepared else { return };
    if catch_unwind(AssertUnwindSafe(|| prepare(state, prepared, frames))).is_err() {
        core.stats.panics += 1;
    }
}

fn prepare<S>(state: &S, prepared: &Prepared<S>, mut frames: Frames<'_>) {
    loop {
        let mut ready: ArrayVec<Ready<'_, '_, S>, TOGETHER> = ArrayVec::new();
        let requests = frames.by_ref().filter_map(|frame| ready_of(prepared, frame));
        ready.extend(requests.take(TOGETHER));
        if ready.is_empty() {
            return;
        }
        for step in 0..prepared.steps_max() {
            for (steps, payload) in &ready {
                if let Some(take) = steps.get(step) {
                    take(state, payload);
                }
            }
        }
    }
}

/// The request in a frame, if it is a whole one in plaintext, to a session, whose method has steps.
fn ready_of<'f, 'p, S>(prepared: &'p Prepared<S>, frame: Frame<'f>) -> Option<Ready<'f, 'p, S>> {
    let packet = Packet::parse(frame.bytes).ok()?;
    if packet.kind() != Kind::Request || packet.has_checksum() {
        return None;
    }
    let steps = prepared.steps(packet.method())?;
    let payload = packet.request_without_padding().payload();
    (payload.len() == packet.message_bytes() as usize).then_some((steps, payload))
}
