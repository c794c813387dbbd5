//! Keys and values: bytes that are text in a history wherever they can be.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// What begins a string that holds bytes as hexadecimal digits.
const HEX: &str = "hex:";

/// A key or a value. A clone shares the bytes.
///
/// In a history it is a string: the bytes themselves if they are UTF-8 and do not begin with
/// `hex:`, and `hex:` with two digits per byte otherwise.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(Arc<[u8]>);

impl Bytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// These bytes, with others behind them.
    #[must_use]
    pub fn with(&self, more: &Bytes) -> Bytes {
        Bytes([self.as_slice(), more.as_slice()].concat().into())
    }

    fn to_text(&self) -> String {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.starts_with(HEX) => text.to_owned(),
            _ => self.0.iter().fold(HEX.to_owned(), |text, byte| text + &format!("{byte:02x}")),
        }
    }

    fn of_text(text: &str) -> Option<Bytes> {
        let Some(digits) = text.strip_prefix(HEX) else { return Some(text.into()) };
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        };
        pairs.map(byte).collect::<Option<Vec<u8>>>().map(|bytes| Bytes(bytes.into()))
    }
}

fn digit(character: u8) -> Option<u8> {
    let value = char::from(character).to_digit(16)?;
    u8::try_from(value).ok()
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Bytes {
        Bytes(text.as_bytes().into())
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(bytes.into())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_text(), f)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or `hex:` and an even number of hexadecimal digits")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        Bytes::of_text(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back_as_they_were() {
        for bytes in
            [&b""[..], b"plain", b"hex:", b"hex:6", &[0xff, 0x00, 0x9f], "\u{e4}\"".as_bytes()]
        {
            let bytes = Bytes::from(bytes);
            let text = serde_json::to_string(&bytes).expect("strings can be written");
            assert_eq!(
                serde_json::from_str::<Bytes>(&text).expect("it was written"),
                bytes,
                "{text}"
            );
        }
        assert_eq!(serde_json::to_string(&Bytes::from("a b")).expect("a string"), "\"a b\"");
        assert_eq!(Bytes::from(&[0xff, 1][..]).to_text(), "hex:ff01");
    }

    #[test]
    fn broken_digits_are_refused() {
        for text in ["\"hex:1\"", "\"hex:zz\"", "\"hex:+1\"", "\"hex:\u{e4}\"", "7"] {
            assert!(serde_json::from_str::<Bytes>(text).is_err(), "{text}");
        }
    }
}
