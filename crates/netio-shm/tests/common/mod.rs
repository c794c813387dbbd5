//! What tests of two ends share.

use petasos_netio::{PacketIo, Route, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_shm::ShmIo;

pub fn send(io: &mut ShmIo, route: Route, bytes: &[u8]) -> usize {
    io.transmit(&[TxPacket { route, head: bytes, body: &[] }])
}

/// Receives until `done` says so.
pub fn receive_until(io: &mut ShmIo, mut done: impl FnMut(&ShmIo, u64) -> bool) {
    let mut frames = 0;
    for turn in turns() {
        frames += io.receive().frames().count() as u64;
        if done(io, frames) {
            return;
        }
        if turn.is_multiple_of(64) {
            std::thread::yield_now();
        }
    }
    panic!("it never came to that, with {frames} frames received");
}
