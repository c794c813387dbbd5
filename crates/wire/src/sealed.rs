//! What sealing needs of headers and routing blocks: numbers, the key phase, and what a router
//! rewrites.

use crate::header::{FLAG_KEY_PHASE, TRANSMISSION_SHIFT, words_of};
use crate::{FIRST_BYTES, HEADER_BYTES};

const KEY_PHASE_BYTE: usize = 1;

const _: () = assert!(FLAG_KEY_PHASE == 1 << (8 * KEY_PHASE_BYTE));

/// The transmission number in a header (W6). The number of a sealed packet is derived from it
/// (W29).
#[inline]
pub fn transmission_of(header: &[u8; HEADER_BYTES]) -> u32 {
    (words_of(header)[1] >> TRANSMISSION_SHIFT) as u32
}

/// Sets in a header which of two keys seals the packet (W30).
#[inline]
pub fn set_key_phase(header: &mut [u8; HEADER_BYTES], odd: bool) {
    header[KEY_PHASE_BYTE] = header[KEY_PHASE_BYTE] & !1 | u8::from(odd);
}

/// The number of a first packet (RT3), from its header and routing block.
#[inline]
pub fn first_number_of(first: &[u8; FIRST_BYTES]) -> u64 {
    let header = first.first_chunk().expect("a header comes first");
    let high = u16::from_le_bytes([first[54], first[55]]);
    u64::from(high) << 24 | u64::from(transmission_of(header))
}

/// Header and routing block of a first packet as they are authenticated: without what the router
/// rewrites, which is session, tag, given number and time left (RT27).
#[inline]
pub fn authenticated(first: &[u8; FIRST_BYTES]) -> [u8; FIRST_BYTES] {
    let mut rest = *first;
    rest[2..8].fill(0);
    rest[16..18].fill(0);
    rest[18] &= 0xf0;
    rest[56..60].fill(0);
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Kind, Packet};

    #[test]
    fn w30_the_key_phase_is_one_bit_and_the_rest_stays() {
        let header = Header::for_session(9, 10).with_checksum();
        let header = header.with_request(Kind::Request, 11, 0xab_cdef).with_client(1, 2, 3);
        let mut bytes = header.to_bytes();
        assert_eq!(transmission_of(&bytes), 0xab_cdef);
        set_key_phase(&mut bytes, true);
        let packet = Packet::parse(&bytes).unwrap();
        assert!(packet.key_phase() && packet.has_checksum());
        assert_eq!((packet.session(), packet.tag(), packet.transmission()), (9, 10, 0xab_cdef));
        set_key_phase(&mut bytes, false);
        assert_eq!(bytes, header.to_bytes());
    }
}
