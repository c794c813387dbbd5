//! The percent-encoding of `grpc-message`.
//!
//! Printable ASCII except `%` stands for itself. Every other byte of the UTF-8 is `%` and two
//! hexadecimal digits. Decoding never fails: invalid escapes are kept as they are.

/// The header's value for `message`.
pub(crate) fn encode(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => {
                text.push('%');
                text.push(digit(byte >> 4));
                text.push(digit(byte & 15));
            }
        }
    }
    text
}

fn digit(value: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(value)])
}

/// Cuts an encoded message to at most `bytes`, at a character boundary.
pub(crate) fn truncate(text: &mut String, bytes: usize) {
    if text.len() <= bytes {
        return;
    }
    let mut end = bytes;
    // An escape has three bytes, and those of a character's later bytes begin with 8 to B.
    while !starts_character(&text.as_bytes()[end..]) || within_escape(text.as_bytes(), end) {
        end -= 1;
    }
    text.truncate(end);
}

fn starts_character(text: &[u8]) -> bool {
    !matches!(text, [b'%', b'8'..=b'9' | b'A'..=b'B', ..])
}

fn within_escape(text: &[u8], at: usize) -> bool {
    text[at.saturating_sub(2)..at].contains(&b'%')
}

/// Decodes a header's value. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn decode(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let escaped = if *first == b'%' { after.get(..2).and_then(hex) } else { None };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    match String::from_utf8(bytes) {
        Ok(message) => message,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let [high, low] = digits else { return None };
    Some((value(*high)? << 4 | value(*low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_printable_ascii_is_escaped() {
        assert_eq!(encode("100 % of\tPößl\n"), "100 %25 of%09P%C3%B6%C3%9Fl%0A");
        assert_eq!(decode(b"100 %25 of%09P%c3%b6%C3%9Fl%0A"), "100 % of\tPößl\n");
    }

    #[test]
    fn wrong_escapes_are_taken_as_they_are() {
        for text in ["%", "%4", "%zz", "100%", "%%"] {
            assert_eq!(decode(text.as_bytes()), text);
        }
        assert_eq!(decode(b"a%FFb\xfe"), "a\u{fffd}b\u{fffd}");
    }

    proptest::proptest! {
        #[test]
        fn messages_come_back(message: String) {
            let text = encode(&message);
            proptest::prop_assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            proptest::prop_assert_eq!(decode(text.as_bytes()), message);
        }
    }
}
