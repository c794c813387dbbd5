//! What the end of a packet is made of: a checksum, or the tag of what is sealed.

use petasos_seal::Sealer;
use petasos_seal::group::FirstSealer;
use petasos_wire::CHECKSUM_BYTES;

/// What the end of a packet is made of, if its header says that it has one.
pub(crate) enum Guard<'a> {
    /// Its checksum (W12).
    Checksum,
    /// The tag of a sealed session (W27), or of a link (RT28).
    Seal(&'a mut Sealer),
    /// The tag of a client's first packet (RT27).
    First(&'a mut FirstSealer),
}

impl Guard<'_> {
    #[inline(always)]
    pub(crate) fn of(sealer: Option<&mut Sealer>) -> Guard<'_> {
        sealer.map_or(Guard::Checksum, Guard::Seal)
    }
}

/// Fills in the end of a packet, which has a block of so many bytes behind its header. Returns
/// whether the packet can be sent.
pub(crate) fn protect(packet: &mut [u8], block_bytes: usize, guard: Guard<'_>) -> bool {
    match guard {
        Guard::Seal(sealer) => return sealer.seal_behind(packet, block_bytes).is_ok(),
        Guard::First(sealer) => return sealer.seal(packet).is_ok(),
        Guard::Checksum => {}
    }
    let (covered, trailer) = packet
        .split_last_chunk_mut::<CHECKSUM_BYTES>()
        .expect("a packet with a checksum has room for it");
    *trailer = crc32c::crc32c(covered).to_le_bytes();
    true
}
