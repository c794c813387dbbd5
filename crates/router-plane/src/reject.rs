//! Rejections of the router (RT25).

use petasos_router::Refusal;
use petasos_seal::group::{Epochs, GroupSecret, Link};
use petasos_seal::{End, KeyLife, SEAL_BYTES};
use petasos_wire::{
    Group, HEADER_BYTES, Header, Kind, Packet, RejectCode, RoutedPacket, TRANSMISSION_NUMBERS,
    WORKER_BLOCK_BYTES, WorkerBlock,
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

/// Header and worker block, and the tag of a sealed one.
const PLAIN_BYTES: usize = HEADER_BYTES + WORKER_BLOCK_BYTES;
const SEALED_BYTES: usize = PLAIN_BYTES + SEAL_BYTES;

/// What rejects a first packet.
pub(crate) struct Rejection {
    header: Header,
    /// The epoch of the first packet.
    pub(crate) epoch: u16,
}

impl Rejection {
    /// Of a first packet whose form was checked.
    pub(crate) fn of(bytes: &[u8], group: Group, code: RejectCode) -> Rejection {
        let packet = Packet::parse(bytes).expect("its form was checked");
        let first = RoutedPacket::from_client(packet, group).expect("its form was checked");
        let header = Header::for_session(first.pair(), first.pair_tag())
            .with_request(Kind::Reject, packet.request(), 0)
            .with_server(packet.transmission(), code as u32, 0);
        Rejection { header, epoch: first.epoch() }
    }

    /// The packet, in a group in plaintext.
    pub(crate) fn plain(&self) -> [u8; PLAIN_BYTES] {
        let mut bytes = [0; PLAIN_BYTES];
        write(&self.header, &mut bytes);
        bytes
    }

    /// The packet, sealed with the router's link to the client.
    pub(crate) fn sealed(&self, link: &mut RouterLink) -> Option<[u8; SEALED_BYTES]> {
        link.last = (link.last + 1) % TRANSMISSION_NUMBERS;
        let header = self.header.with_checksum().with_transmission(link.last);
        let mut bytes = [0; SEALED_BYTES];
        write(&header, &mut bytes);
        link.link.half()?.sealer.seal_behind(&mut bytes, WORKER_BLOCK_BYTES).ok()?;
        Some(bytes)
    }
}

fn write(header: &Header, bytes: &mut [u8]) {
    let block = WorkerBlock { session: 0, tag: 0, worker: WorkerBlock::ROUTER };
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    bytes[HEADER_BYTES..PLAIN_BYTES].copy_from_slice(&block.to_bytes());
}

/// The link of the router to a client in an epoch (RT25, RT28): it sends, and hears nothing.
#[derive(Debug)]
pub(crate) struct RouterLink {
    epoch: u16,
    link: Link,
    /// The number of the last packet.
    last: u32,
}

/// The links to a client in the epochs that are taken. Each is made at the first need, and once.
#[derive(Debug, Default)]
pub(crate) struct RouterLinks([Option<Box<RouterLink>>; 2]);

impl RouterLinks {
    /// The link to `client` in `epoch`; `taken` has the secrets of those that are taken. `None` if
    /// it is not one of these.
    pub(crate) fn get(
        &mut self,
        taken: &mut Epochs<GroupSecret>,
        epoch: u16,
        client: u32,
    ) -> Option<&mut RouterLink> {
        let secret = taken.get(epoch)?;
        let at = self.0.iter().position(|link| link.as_ref().is_some_and(|it| it.epoch == epoch));
        if let Some(at) = at {
            return self.0[at].as_deref_mut();
        }
        let (secret, life) = (secret.client(client), KeyLife::default());
        let link = Link::new(&secret, WorkerBlock::ROUTER, End::Server, life);
        // Only two are taken, so that one of the places is free, or of an epoch that is over.
        let mut is_over = |place: &Option<Box<RouterLink>>| match place {
            None => true,
            Some(link) => taken.get(link.epoch).is_none(),
        };
        let at = if is_over(&self.0[0]) { 0 } else { 1 };
        Some(self.0[at].insert(Box::new(RouterLink { epoch, link, last: 0 })))
    }
}
