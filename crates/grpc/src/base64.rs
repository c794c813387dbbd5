//! Base64 (RFC 4648, section 4) for binary metadata.
//!
//! gRPC writes it without padding and must accept both forms. Surplus bits of the last character
//! are ignored, as in other implementations. Public for code that shows or reads such metadata as
//! text.

use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{Engine, alphabet};

const PLAIN: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

/// The text of `bytes`, without padding.
pub fn encode(bytes: &[u8]) -> String {
    PLAIN.encode(bytes)
}

/// The bytes of `text`, padded or not; `None` if it is not base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    PLAIN.decode(without_padding(text)?).ok()
}

/// Removes the padding. It must be complete or absent.
fn without_padding(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|character| *character == b'=').unwrap_or(text.len());
    let (text, padding) = text.split_at(end);
    let whole = (text.len() + padding.len()).is_multiple_of(4) && padding.len() <= 2;
    let absent_or_whole = padding.is_empty() || whole && padding.iter().all(|c| *c == b'=');
    absent_or_whole.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_rfc_hold_with_and_without_padding() {
        let examples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, padded) in examples {
            let plain = padded.trim_end_matches('=');
            assert_eq!(encode(bytes.as_bytes()), plain);
            assert_eq!(decode(padded.as_bytes()).as_deref(), Some(bytes.as_bytes()));
            assert_eq!(decode(plain.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in
            ["Z", "Zg=", "Zg===", "=", "====", "Zm9v=", "Zg==Zg==", "Zm 9", "Zm9-", "Z\u{fc}"]
        {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn bytes_come_back(bytes: Vec<u8>) {
            proptest::prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }

        #[test]
        fn any_text_decodes_or_does_not(text: Vec<u8>) {
            if let Some(bytes) = decode(&text) {
                proptest::prop_assert!(bytes.len() <= text.len());
            }
        }
    }
}
