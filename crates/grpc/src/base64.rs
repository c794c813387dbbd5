//! Base64 (RFC 4648, section 4) of binary metadata.
//!
//! gRPC writes it without padding and must take it either way. Bits that the last character has
//! beyond the last byte are not looked at, as no implementation does. Public for whoever shows or
//! reads such metadata as text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The six bits of each character; [`NONE`] for others.
const VALUES: [u8; 256] = values();
const NONE: u8 = 0xff;

const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
}

/// The text of `bytes`, without padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity((bytes.len() * 4).div_ceil(3));
    for group in bytes.chunks(3) {
        let mut bits = 0;
        for (index, byte) in group.iter().enumerate() {
            bits |= u32::from(*byte) << (16 - 8 * index);
        }
        for index in 0..=group.len() {
            let value = bits >> (18 - 6 * index) & 0x3f;
            text.push(char::from(ALPHABET[value as usize]));
        }
    }
    text
}

/// The bytes of `text`, padded or not; none if it is not base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text = without_padding(text)?;
    if text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let mut bits = 0;
        for (index, character) in group.iter().enumerate() {
            let value = VALUES[usize::from(*character)];
            if value == NONE {
                return None;
            }
            bits |= u32::from(value) << (18 - 6 * index);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

/// Padding is whole or absent.
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
