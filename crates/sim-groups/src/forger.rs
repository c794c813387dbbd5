//! Somebody on the path, who reads what passes and sends what others seem to have sent.

use petasos_base::Rng;
use petasos_wire::{
    FIRST_BYTES, Feedback, GIVEN_NUMBERS, Given, Packet, Probe, RoutedPacket, SETTLED_NUMBERS,
    TRANSMISSION_NUMBERS,
};

use crate::sessions::GROUP;

/// How far forged counts and numbers are from the right ones, at most.
const FAR: u64 = 8;

/// What somebody who reads `bytes` on the path may send as well, as if it came from there: feedback
/// with other counts, or what a router has given with another number, or as a probe.
pub(crate) fn forged(rng: &mut Rng, bytes: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::parse(bytes).ok()?;
    if let Ok(told) = Feedback::of(packet) {
        return Some(forged_feedback(rng, told));
    }
    let given = RoutedPacket::from_router(packet, GROUP).ok().filter(|first| first.given() > 0)?;
    let (session, tag) = (packet.session(), packet.tag());
    let number = (given.given() + rng.below(FAR) as u32) % GIVEN_NUMBERS;
    if rng.chance(0.5) {
        return Some(Probe { session, tag, number }.to_bytes().to_vec());
    }
    let (mut again, lifetime_us) = (bytes.to_vec(), None);
    let first = again.first_chunk_mut::<FIRST_BYTES>().expect("it was parsed");
    Given { session, tag, number, lifetime_us }.write_to(first);
    Some(again)
}

fn forged_feedback(rng: &mut Rng, mut told: Feedback) -> Vec<u8> {
    let counts = &mut told.counts;
    let mut far = || rng.below(FAR) as u32;
    counts.sequence = (counts.sequence + far()) % TRANSMISSION_NUMBERS;
    counts.received = (counts.received + far()) % GIVEN_NUMBERS;
    counts.settled = (counts.settled + far()) % SETTLED_NUMBERS;
    counts.bound = [0, 1, counts.bound, 4095][rng.below(4) as usize];
    told.to_bytes().to_vec()
}
