//! A plane of a sealed group: it opens nothing, and seals its rejections (RT25, RT27, RT28).

use petasos_netio::PacketIo;
use petasos_router_plane::PlaneConfig;
use petasos_seal::group::{ClientSecret, FirstOpener, FirstSealer, GroupSecret, Link};
use petasos_seal::{Cipher, End, KeyLife, SEAL_BYTES};
use petasos_wire::{Group, Kind, Packet, RejectCode, RoutedPacket, WORKER_BLOCK_BYTES};

use crate::{PAYLOAD, PlaneFactory, World, config};

struct Sealed<I> {
    world: World<I>,
    group: Group,
}

fn secret(epoch: u16) -> GroupSecret {
    GroupSecret::new(Cipher::Aes128Gcm, [epoch as u8; 32])
}

impl<I: PacketIo> Sealed<I> {
    fn new<F: PlaneFactory<Io = I>>(factory: &F, workers: usize) -> Sealed<I> {
        let config = PlaneConfig { is_sealed: true, ..config("jbsq1") };
        let world = World::with(factory, &config, workers, 1);
        Sealed { world, group: Group { payload_bytes: PAYLOAD, is_sealed: true } }
    }

    fn client(&self, epoch: u16) -> ClientSecret {
        secret(epoch).client(self.world.client.0.client)
    }

    /// A first packet as the client seals it.
    fn first(&mut self, message: &[u8], epoch: u16) -> Vec<u8> {
        let mut bytes = self.world.first(message, |block| block.epoch = epoch);
        // Kind and checksum are in the first word.
        let mut flagged = petasos_wire::Header::for_session(0, 0).with_checksum().to_bytes();
        flagged.iter_mut().zip(&bytes).for_each(|(flag, byte)| *flag |= byte);
        bytes[..flagged.len()].copy_from_slice(&flagged);
        bytes.extend([0; SEAL_BYTES]);
        let mut sealer = FirstSealer::new(&self.client(epoch), KeyLife::default());
        sealer.seal(&mut bytes).expect("its number is new");
        bytes
    }

    /// The codes of the rejections that the client has opened with its link of an epoch.
    fn rejections(&mut self, link: &mut Link) -> Vec<Option<RejectCode>> {
        let mut codes = Vec::new();
        for bytes in self.world.client_inbox(0) {
            let packet = Packet::parse(&bytes).expect("it is a packet");
            assert!(packet.kind() == Kind::Reject && packet.has_checksum());
            let opener = &mut link.half().expect("it is taken").opener;
            let mut out = [0; 64];
            let opened = opener.open_behind(&bytes, &packet, WORKER_BLOCK_BYTES, &mut out);
            assert_eq!(opened, Ok(&[][..]));
            codes.push(RejectCode::from_value(packet.value()));
        }
        codes
    }
}

fn link(secret: &ClientSecret) -> Link {
    Link::new(secret, 0, End::Client, KeyLife::default())
}

/// RT27: the router changes nothing that the seal covers.
pub fn rt27_first_packets_pass_sealed_and_open_at_the_worker<F: PlaneFactory>(factory: &F) {
    let mut sealed = Sealed::new(factory, 1);
    sealed.world.plane.begin_epoch(0, Some(secret(0)));
    let longest = vec![7; PAYLOAD as usize];
    let bytes = sealed.first(&longest, 0);
    sealed.world.send(&bytes);
    let client = sealed.client(0);
    let [bytes] = &sealed.world.worker_inbox(0)[..] else { panic!("one was given") };
    let packet = Packet::parse(bytes).expect("it is a packet");
    let first = RoutedPacket::from_router(packet, sealed.group).expect("it is a first packet");
    let mut opener = FirstOpener::new(&client, KeyLife::default());
    let mut out = vec![0; longest.len()];
    assert_eq!(opener.open(bytes, &first, &mut out), Ok(&longest[..]));
}

/// RT27.
pub fn rt27_what_is_not_sealed_is_void<F: PlaneFactory>(factory: &F) {
    let mut sealed = Sealed::new(factory, 1);
    sealed.world.plane.begin_epoch(0, Some(secret(0)));
    let plain = sealed.world.first(b"plain", |_| {});
    sealed.world.send(&plain);
    assert_eq!(sealed.world.stats().void, 1);
    assert!(sealed.world.worker_inbox(0).is_empty());
    assert!(sealed.world.client_inbox(0).is_empty(), "nor is it answered");
}

/// RT25, RT30.
pub fn rt25_rt30_rejections_are_sealed_in_the_epoch_of_what_they_reject<F: PlaneFactory>(
    factory: &F,
) {
    let mut sealed = Sealed::new(factory, 0);
    let of_none = sealed.first(b"early", 0);
    sealed.world.send(&of_none);
    assert_eq!(sealed.world.stats().unsealed, 1, "no epoch has begun");
    let mut links = [0, 1, 2].map(|epoch| link(&sealed.client(epoch)));
    for epoch in [0, 1, 2] {
        sealed.world.plane.begin_epoch(epoch, Some(secret(epoch)));
        for of in [epoch.saturating_sub(1), epoch] {
            // Several, so that numbers have to go up.
            for _ in 0..3 {
                let bytes = sealed.first(b"nobody is there", of);
                sealed.world.send(&bytes);
                let link = &mut links[usize::from(of)];
                assert_eq!(sealed.rejections(link), [Some(RejectCode::NoWorker)]);
            }
        }
    }
    sealed.world.plane.end_epoch();
    let rejected = sealed.world.stats().rejected;
    for over in [0, 1] {
        let bytes = sealed.first(b"old", over);
        sealed.world.send(&bytes);
    }
    assert_eq!(sealed.world.stats().rejected, rejected, "their secrets are gone");
    assert_eq!(sealed.world.stats().unsealed, 3);
}

/// RT28.
pub fn rt28_a_client_that_comes_later_has_its_own_link<F: PlaneFactory>(factory: &F) {
    let mut sealed = Sealed::new(factory, 0);
    sealed.world.plane.begin_epoch(0, Some(secret(0)));
    let bytes = sealed.first(b"one", 0);
    sealed.world.send(&bytes);
    let mut wrong = link(&secret(0).client(sealed.world.client.0.client + 1));
    let [bytes] = &sealed.world.client_inbox(0)[..] else { panic!("it is rejected") };
    let packet = Packet::parse(bytes).expect("it is a packet");
    let opener = &mut wrong.half().expect("it is taken").opener;
    let mut out = [0; 64];
    assert!(opener.open_behind(bytes, &packet, WORKER_BLOCK_BYTES, &mut out).is_err());
}
