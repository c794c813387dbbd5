//! Base64, for `bytes`: written in the standard alphabet with padding; read in either alphabet,
//! with or without padding.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, NO_PAD, STANDARD};
use base64::{Engine, alphabet};

/// Bits beyond the last byte are not looked at, as no implementation does.
const ANY_BITS: GeneralPurposeConfig = NO_PAD.with_decode_allow_trailing_bits(true);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_BITS);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_BITS);

pub(super) fn encode(bytes: &[u8], text: &mut String) {
    STANDARD.encode_string(bytes, text);
}

/// `None` if the text is not base64. Padding is whole or absent.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let engine = if digits.contains(['-', '_']) { URL_SAFE } else { PLAIN };
    engine.decode(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_with_and_without_padding() {
        let all: Vec<u8> = (0..=255).rev().collect();
        for len in (0..20).chain([256]) {
            let mut text = String::new();
            encode(&all[..len], &mut text);
            assert_eq!(text.len(), len.div_ceil(3) * 4);
            assert_eq!(decode(&text).unwrap(), all[..len]);
            let url = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
            assert_eq!(decode(&url).unwrap(), all[..len]);
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["A", "AAAAA", "AA=", "AAA==", "A===", "====", "AA A", "ÄA", "AA==AA=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
