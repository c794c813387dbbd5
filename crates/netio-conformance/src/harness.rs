//! Shared by all properties: sending, receiving a number of frames, and distinguishable payloads.

use petasos_netio::{Origin, PacketIo, Route, TxPacket};

use crate::{BackendFactory, turns};

/// Turns without a frame after which no more are expected.
const SETTLE_TURNS: usize = 200;

/// Packets that are in flight at once, at most.
pub(crate) const IN_FLIGHT_MAX: usize = 64;

/// Two ports, and the first one's route to the second.
pub(crate) fn pair<F: BackendFactory>(factory: &F) -> (F::Io, F::Io, Route) {
    let [mut from, to] = array(factory.ports(2));
    let route = from.route(to.local_address()).expect("ports reach each other");
    (from, to, route)
}

/// Three ports, and the first one's routes to the others.
pub(crate) fn trio<F: BackendFactory>(factory: &F) -> (F::Io, [F::Io; 2], [Route; 2]) {
    let [mut from, first, second] = array(factory.ports(3));
    let routes =
        [&first, &second].map(|to| from.route(to.local_address()).expect("ports reach each other"));
    (from, [first, second], routes)
}

fn array<T, const N: usize>(ports: Vec<T>) -> [T; N] {
    ports.try_into().ok().expect("the factory makes as many ports as it is asked for")
}

/// The bytes of packet `number`: they start with the number and differ in every position from
/// those of most others.
pub(crate) fn payload(number: usize, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (at * 31 + number * 7) as u8).collect();
    let label = (number as u32).to_le_bytes();
    let label_len = label.len().min(len);
    bytes[..label_len].copy_from_slice(&label[..label_len]);
    bytes
}

/// `bytes` as a packet, with everything in the head.
pub(crate) fn packet(route: Route, bytes: &[u8]) -> TxPacket<'_> {
    TxPacket { route, head: bytes, body: &[] }
}

/// Hands over `packets` until all are taken.
pub(crate) fn send_all(io: &mut impl PacketIo, packets: &[TxPacket<'_>]) {
    let mut rest = packets;
    for _ in turns() {
        let taken = io.transmit(rest);
        assert!(taken <= rest.len(), "a backend takes a prefix of what it is given");
        rest = &rest[taken..];
        if rest.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} of {} packets were never taken", rest.len(), packets.len());
}

/// Hands over `payloads` for one route.
pub(crate) fn send_payloads(io: &mut impl PacketIo, route: Route, payloads: &[Vec<u8>]) {
    let packets: Vec<_> = payloads.iter().map(|bytes| packet(route, bytes)).collect();
    send_all(io, &packets);
}

/// Hands over a train until all of it is taken.
pub(crate) fn send_train(io: &mut impl PacketIo, route: Route, bytes: &[u8], segment_bytes: usize) {
    let mut rest = bytes;
    for _ in turns() {
        let taken = io.transmit_train(route, rest, segment_bytes);
        assert!(taken <= rest.len().div_ceil(segment_bytes), "a backend takes a prefix");
        rest = rest.get(taken * segment_bytes..).unwrap_or(&[]);
        if rest.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} of {} bytes were never taken", rest.len(), bytes.len());
}

/// Receives until `count` frames have come.
pub(crate) fn receive(io: &mut impl PacketIo, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for _ in turns() {
        frames.extend(io.receive().frames().map(|frame| frame.bytes.to_vec()));
        if frames.len() >= count {
            return frames;
        }
        std::thread::yield_now();
    }
    panic!("{} of {count} frames arrived", frames.len());
}

/// Where the next frame comes from, if the backend reports that.
pub(crate) fn origin_of_next(io: &mut impl PacketIo) -> Option<Origin> {
    for _ in turns() {
        let mut frames = io.receive().frames();
        if frames.next().is_some() {
            return frames.origin();
        }
        std::thread::yield_now();
    }
    panic!("no frame arrived");
}

/// Receives exactly `expected`, in this order.
pub(crate) fn expect(io: &mut impl PacketIo, expected: &[Vec<u8>]) {
    let frames = receive(io, expected.len());
    assert_eq!(frames.len(), expected.len(), "number of frames");
    for (at, (frame, expected)) in frames.iter().zip(expected).enumerate() {
        assert!(
            frame == expected,
            "frame {at}: got {} bytes starting {:?}, expected {} starting {:?}",
            frame.len(),
            &frame[..frame.len().min(8)],
            expected.len(),
            &expected[..expected.len().min(8)],
        );
    }
}

/// Checks that nothing (more) arrives.
pub(crate) fn expect_nothing(io: &mut impl PacketIo) {
    for _ in 0..SETTLE_TURNS {
        let batch = io.receive();
        assert_eq!(batch.frames().count(), 0, "frames that nobody sent");
        std::thread::yield_now();
    }
}
