//! Values for `bytes` fields.

use bytes::Bytes;
use petasos_buf::MsgBuf;

use crate::{ADOPT_BYTES_MIN, heap};

/// Bytes, with an owner or without. Long ones with an owner are not copied (M16); all others are.
pub struct Payload<'a>(Kind<'a>);

enum Kind<'a> {
    Borrowed(&'a [u8]),
    Vec(Vec<u8>),
    Shared(Bytes),
    Buffer(MsgBuf),
}

impl<'a> Payload<'a> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Kind::Borrowed(bytes) => bytes,
            Kind::Vec(bytes) => bytes,
            Kind::Shared(bytes) => bytes,
            Kind::Buffer(bytes) => bytes,
        }
    }

    /// The owner, if the bytes should not be copied; otherwise the bytes to copy.
    #[inline(always)]
    pub(crate) fn into_kept(self) -> Result<Bytes, Payload<'a>> {
        let short = self.as_slice().len() < ADOPT_BYTES_MIN;
        match self.0 {
            Kind::Vec(bytes) if !short => Ok(Bytes::from(bytes)),
            Kind::Shared(bytes) if !short => Ok(bytes),
            Kind::Buffer(bytes) if !short => Ok(heap::into_bytes(bytes)),
            kind => Err(Payload(kind)),
        }
    }
}

impl std::ops::Deref for Payload<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    #[inline(always)]
    fn from(bytes: &'a [u8]) -> Payload<'a> {
        Payload(Kind::Borrowed(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Payload<'a> {
    #[inline(always)]
    fn from(bytes: &'a [u8; N]) -> Payload<'a> {
        Payload(Kind::Borrowed(bytes))
    }
}

impl<'a> From<&'a Vec<u8>> for Payload<'a> {
    #[inline(always)]
    fn from(bytes: &'a Vec<u8>) -> Payload<'a> {
        Payload(Kind::Borrowed(bytes))
    }
}

impl<'a> From<&'a str> for Payload<'a> {
    #[inline(always)]
    fn from(text: &'a str) -> Payload<'a> {
        Payload(Kind::Borrowed(text.as_bytes()))
    }
}

impl From<Vec<u8>> for Payload<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Payload(Kind::Vec(bytes))
    }
}

impl From<Bytes> for Payload<'_> {
    fn from(bytes: Bytes) -> Self {
        Payload(Kind::Shared(bytes))
    }
}

impl From<&Bytes> for Payload<'_> {
    /// Shares the bytes: they are not copied if they are long.
    fn from(bytes: &Bytes) -> Self {
        Payload(Kind::Shared(bytes.clone()))
    }
}

impl From<MsgBuf> for Payload<'_> {
    fn from(bytes: MsgBuf) -> Self {
        Payload(Kind::Buffer(bytes))
    }
}
