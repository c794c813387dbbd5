//! The contents of messages. Every byte is determined by the call, so both sides can check them
//! all.

use petasos_base::Rng;

/// Identifies a message of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Response,
}

/// Requests of at least this many bytes begin with the call's number.
pub(super) const NUMBER_BYTES: usize = 8;

/// Fills a message of `call`.
pub(super) fn fill(call: u64, side: Side, bytes: &mut [u8]) {
    each_word(call, side, bytes.chunks_mut(8), |piece, word| {
        piece.copy_from_slice(&word[..piece.len()]);
        true
    });
}

/// Whether `bytes` are exactly a message of `call`, whatever its length.
pub(super) fn is_right(call: u64, side: Side, bytes: &[u8]) -> bool {
    each_word(call, side, bytes.chunks(8), |piece, word| *piece == word[..piece.len()])
}

/// The number that a request carries, if it is long enough.
pub(super) fn number(request: &[u8]) -> Option<u64> {
    request.first_chunk::<NUMBER_BYTES>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Compares or copies word by word, as long as `act` agrees.
fn each_word<P>(
    call: u64,
    side: Side,
    pieces: impl Iterator<Item = P>,
    mut act: impl FnMut(P, [u8; 8]) -> bool,
) -> bool {
    let mut rng = Rng::new(call ^ side as u64 ^ 0x5bd1_e995);
    let mut first = (side == Side::Request).then_some(call);
    pieces.into_iter().all(|piece| {
        let word = first.take().unwrap_or_else(|| rng.next_u64());
        act(piece, word.to_le_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_seen_wherever_it_is() {
        for len in [1, 7, 8, 9, 40, 41] {
            let mut bytes = vec![0; len];
            fill(0x1234_5678_9abc, Side::Response, &mut bytes);
            assert!(is_right(0x1234_5678_9abc, Side::Response, &bytes));
            for at in 0..len {
                bytes[at] ^= 4;
                assert!(!is_right(0x1234_5678_9abc, Side::Response, &bytes));
                bytes[at] ^= 4;
            }
        }
    }

    #[test]
    fn messages_differ_by_call_and_side() {
        let mut bytes = [0; 32];
        fill(7, Side::Request, &mut bytes);
        assert_eq!(number(&bytes), Some(7));
        assert_eq!(number(&bytes[..7]), None);
        assert!(!is_right(8, Side::Request, &bytes));
        assert!(!is_right(7, Side::Response, &bytes));
    }
}
