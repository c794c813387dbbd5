//! Why the service refuses an application, and why an attachment ends (D1): a code for programs and
//! a text for people.

use core::fmt;

use crate::frame::{Malformed, Reader};

/// The most bytes of a text.
pub const TEXT_BYTES_MAX: usize = 255;

/// A text from the other side: short, and printed without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// `text`, cut after the last whole character that fits.
    pub fn new(text: &str) -> Text {
        Text(text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned())
    }

    /// The text as it came, with control characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Text, Malformed> {
        let bytes = reader.u8()?;
        let text = core::str::from_utf8(reader.bytes(bytes)?);
        text.map(Text::new).map_err(|_| Malformed::Value("text"))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.0.len() as u8);
        out.extend_from_slice(self.0.as_bytes());
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

/// Why the service does not take an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefuseCode {
    /// No version is common. The older of both has to be replaced.
    Versions,
    /// The application broke the rules before it was taken, or took too long.
    Violation,
    /// The token is wrong or missing.
    Token,
    /// Too many are attaching. A retry is safe, after a while.
    Busy,
    /// The user has too many applications, or there are too many in all. A retry is safe, and of
    /// use after one has ended.
    TooMany,
    /// The configuration does not allow this application.
    Forbidden,
    /// The service is ending. A retry is safe, and reaches its successor.
    Stopping,
    /// Another, which a later version has.
    Other(u8),
}

impl RefuseCode {
    /// Whether trying again later is safe and can succeed.
    pub fn may_retry(self) -> bool {
        matches!(self, RefuseCode::Busy | RefuseCode::TooMany | RefuseCode::Stopping)
    }

    pub(crate) fn to_byte(self) -> u8 {
        match self {
            RefuseCode::Versions => 1,
            RefuseCode::Violation => 2,
            RefuseCode::Token => 3,
            RefuseCode::Busy => 4,
            RefuseCode::TooMany => 5,
            RefuseCode::Forbidden => 6,
            RefuseCode::Stopping => 7,
            RefuseCode::Other(code) => code,
        }
    }

    /// A refusal is for an application of any version, so unknown codes are codes.
    pub(crate) fn from_byte(byte: u8) -> Result<RefuseCode, Malformed> {
        Ok(match byte {
            0 => return Err(Malformed::Value("code")),
            1 => RefuseCode::Versions,
            2 => RefuseCode::Violation,
            3 => RefuseCode::Token,
            4 => RefuseCode::Busy,
            5 => RefuseCode::TooMany,
            6 => RefuseCode::Forbidden,
            7 => RefuseCode::Stopping,
            code => RefuseCode::Other(code),
        })
    }
}

/// Why a side ends an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetachCode {
    /// It needs it no more.
    Done,
    /// The other side broke the rules.
    Violation,
    /// The service is ending; its successor can be attached to.
    Stopping,
}

impl DetachCode {
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            DetachCode::Done => 1,
            DetachCode::Violation => 2,
            DetachCode::Stopping => 3,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Result<DetachCode, Malformed> {
        Ok(match byte {
            1 => DetachCode::Done,
            2 => DetachCode::Violation,
            3 => DetachCode::Stopping,
            _ => return Err(Malformed::Value("code")),
        })
    }
}

/// Why the service makes no extent. The application is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoExtent {
    /// The heap's quota would be exceeded. A retry with fewer bytes may succeed.
    #[error("the heap's quota does not have so many bytes")]
    Quota,
    /// The heap's range has no free place so large, or the heap has too many extents. A retry with
    /// fewer bytes, or after an extent was given up, may succeed.
    #[error("the heap has no room for so many bytes")]
    Room,
    /// The service's system refused. A retry is safe, and may succeed later.
    #[error("the service's system has no memory or descriptors")]
    Memory,
}

impl NoExtent {
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            NoExtent::Quota => 1,
            NoExtent::Room => 2,
            NoExtent::Memory => 3,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Result<NoExtent, Malformed> {
        Ok(match byte {
            1 => NoExtent::Quota,
            2 => NoExtent::Room,
            3 => NoExtent::Memory,
            _ => return Err(Malformed::Value("code")),
        })
    }
}
