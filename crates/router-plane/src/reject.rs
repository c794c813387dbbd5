//! Rejections of the router (RT25).

use petasos_router::Refusal;
use petasos_wire::{
    Group, HEADER_BYTES, Header, Kind, Packet, RejectCode, RoutedPacket, WORKER_BLOCK_BYTES,
    WorkerBlock,
};

/// What a client is told.
pub(crate) fn code_of(why: Refusal) -> RejectCode {
    match why {
        Refusal::Expired => RejectCode::Expired,
        Refusal::Nobody => RejectCode::NoWorker,
        // `Full`, and `Aged`.
        _ => RejectCode::QueueFull,
    }
}

/// Header and worker block.
const REJECTION_BYTES: usize = HEADER_BYTES + WORKER_BLOCK_BYTES;

/// What rejects a first packet whose form was checked.
pub(crate) fn rejection(bytes: &[u8], group: Group, code: RejectCode) -> [u8; REJECTION_BYTES] {
    let packet = Packet::parse(bytes).expect("its form was checked");
    let first = RoutedPacket::from_client(packet, group).expect("its form was checked");
    let header = Header::for_session(first.pair(), first.pair_tag())
        .with_request(Kind::Reject, packet.request(), 0)
        .with_server(packet.transmission(), code as u32, 0);
    let block = WorkerBlock { session: 0, tag: 0, worker: WorkerBlock::ROUTER };
    let mut reject = [0; REJECTION_BYTES];
    reject[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    reject[HEADER_BYTES..].copy_from_slice(&block.to_bytes());
    reject
}
