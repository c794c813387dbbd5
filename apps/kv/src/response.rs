//! Responses of the raw interface (K18).

use petasos_store::Item;

use crate::status::Status;

/// Bytes before the value.
pub const RESPONSE_HEADER_BYTES: usize = 16;

/// What an operation has brought about, at its server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<'t> {
    pub status: Status,
    /// 0 if there is no item.
    pub stamp: u64,
    pub value: Returned<'t>,
}

/// The value that a response has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Returned<'t> {
    Nothing,
    Item(Item<'t>),
    /// An item's flags, without its value.
    Flags(u16),
    /// A sum, or a layout's version.
    Number(u64),
}

impl Outcome<'_> {
    pub fn of(status: Status) -> Outcome<'static> {
        Outcome { status, stamp: 0, value: Returned::Nothing }
    }

    fn value_bytes(&self) -> usize {
        match self.value {
            Returned::Nothing | Returned::Flags(_) => 0,
            Returned::Item(item) => item.value_bytes(),
            Returned::Number(_) => 8,
        }
    }

    /// Bytes of its message.
    pub fn bytes(&self) -> usize {
        RESPONSE_HEADER_BYTES + self.value_bytes()
    }

    /// Writes its message, which fits exactly.
    #[inline]
    pub fn write(&self, to: &mut [u8]) {
        let (header, value) = to.split_at_mut(RESPONSE_HEADER_BYTES);
        let flags = match self.value {
            Returned::Item(item) => item.flags(),
            Returned::Flags(flags) => flags,
            _ => 0,
        };
        let word = self.status as u64 | u64::from(flags) << 16 | (value.len() as u64) << 32;
        header[..8].copy_from_slice(&word.to_le_bytes());
        header[8..].copy_from_slice(&self.stamp.to_le_bytes());
        match self.value {
            Returned::Nothing | Returned::Flags(_) => {}
            Returned::Item(item) => item.copy_to(value),
            Returned::Number(number) => value.copy_from_slice(&number.to_le_bytes()),
        }
    }
}

/// What an operation has brought about, at its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// How it ended.
    pub status: Status,
    /// What the item's writer has set.
    pub flags: u16,
    /// The item's stamp, 0 if there is none.
    pub stamp: u64,
    /// The value, if one was asked for.
    pub value: &'a [u8],
}

/// Bytes are no response: the server's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's response is malformed")]
pub struct MalformedResponse;

impl<'a> Response<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(bytes: &'a [u8]) -> Result<Response<'a>, MalformedResponse> {
        let (header, value) =
            bytes.split_first_chunk::<RESPONSE_HEADER_BYTES>().ok_or(MalformedResponse)?;
        let status = Status::from_code(header[0]).ok_or(MalformedResponse)?;
        let word = u64::from_le_bytes(header[..8].try_into().expect("there are eight"));
        let stamp = u64::from_le_bytes(header[8..].try_into().expect("there are eight"));
        if header[1] != 0 || (word >> 32) as usize != value.len() {
            return Err(MalformedResponse);
        }
        Ok(Response { status, flags: (word >> 16) as u16, stamp, value })
    }

    /// The number that it has for a value.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_le_bytes)
    }
}
