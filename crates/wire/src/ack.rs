//! The payload of an [`Kind::Ack`](crate::Kind::Ack): which packets beyond the first gap arrived.

/// The most words that an acknowledgement carries: 1024 packets beyond the first gap (W18).
pub const BITMAP_WORDS_MAX: usize = 16;

/// Bit `i` says that packet `value + i` has arrived, where `value` is the header's: the index of
/// the first packet that has not arrived. So an honest sender never sets bit 0.
#[derive(Clone, Copy, Debug)]
pub struct AckBitmap<'a> {
    bytes: &'a [u8],
}

impl<'a> AckBitmap<'a> {
    /// The bitmap in an acknowledgement's payload. `None` if the payload is too long, or not a
    /// whole number of words (W18).
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Option<AckBitmap<'a>> {
        let whole = payload.len().is_multiple_of(8) && payload.len() <= BITMAP_WORDS_MAX * 8;
        whole.then_some(AckBitmap { bytes: payload })
    }

    /// Offsets, from the header's value, of the packets that have arrived, in rising order.
    pub fn offsets(self) -> impl Iterator<Item = u32> + use<'a> {
        self.bytes.chunks_exact(8).enumerate().flat_map(|(at, bytes)| {
            let bytes: [u8; 8] = bytes.try_into().expect("chunks of eight are eight");
            let mut word = u64::from_le_bytes(bytes);
            core::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at as u32 * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_name_the_set_bits() {
        let mut payload = [0u8; 16];
        payload[0] = 0b110;
        payload[8] = 1;
        payload[15] = 0x80;
        let offsets: Vec<_> = AckBitmap::parse(&payload).unwrap().offsets().collect();
        assert_eq!(offsets, [1, 2, 64, 127]);
    }

    #[test]
    fn ragged_and_overlong_payloads_are_refused() {
        assert!(AckBitmap::parse(&[0; 7]).is_none());
        assert!(AckBitmap::parse(&[0; BITMAP_WORDS_MAX * 8 + 8]).is_none());
        assert_eq!(AckBitmap::parse(&[]).unwrap().offsets().count(), 0);
    }
}
