//! Requests of the raw interface (K17).
//!
//! Threat model: the bytes are a stranger's. A view is made of them only if every length and every
//! field is as K17 says, so that nothing behind it looks at lengths again.

use petasos_store::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::status::Status;

/// Bytes before key and value.
pub const REQUEST_HEADER_BYTES: usize = 24;
/// Bits of an expiry.
const EXPIRY_BITS: u32 = 48;

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Returns the item.
    Get = 1,
    /// Writes it.
    Set = 2,
    /// Deletes it.
    Delete = 3,
    /// Writes it if its stamp is `operand`.
    CompareAndSet = 4,
    /// Writes it if there is none.
    Add = 5,
    /// Writes it if there is one.
    Replace = 6,
    /// Adds bytes behind the value.
    Append = 7,
    /// Adds bytes before the value.
    Prepend = 8,
    /// Adds `operand`, a two's complement, to a value of 8 bytes, and returns the sum (K9).
    AddNumber = 9,
    /// Gives it another expiry.
    Touch = 10,
    /// The same, and returns the item.
    GetAndTouch = 11,
}

impl Operation {
    fn from_code(code: u8) -> Option<Operation> {
        use Operation::*;
        let all = [
            Get,
            Set,
            Delete,
            CompareAndSet,
            Add,
            Replace,
            Append,
            Prepend,
            AddNumber,
            Touch,
            GetAndTouch,
        ];
        all.into_iter().find(|operation| *operation as u8 == code)
    }

    /// Whether it writes a whole item, with flags and expiry.
    fn writes(self) -> bool {
        use Operation::*;
        matches!(self, Set | CompareAndSet | Add | Replace)
    }

    fn has_value(self) -> bool {
        self.writes() || matches!(self, Operation::Append | Operation::Prepend)
    }

    fn has_expiry(self) -> bool {
        self.writes() || matches!(self, Operation::Touch | Operation::GetAndTouch)
    }

    fn has_operand(self) -> bool {
        matches!(self, Operation::CompareAndSet | Operation::AddNumber)
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is done.
    pub operation: Operation,
    /// Whether the response leaves out the value.
    pub without_value: bool,
    /// What the item's readers are to find with it.
    pub flags: u16,
    /// Milliseconds from now until it expires, 0 for never: below 2^48.
    pub expiry_ms: u64,
    /// See [`Operation`].
    pub operand: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value, or what is added to it.
    pub value: &'a [u8],
}

impl<'a> Request<'a> {
    /// An operation that needs nothing but a key.
    #[must_use]
    pub fn new(operation: Operation, key: &'a [u8]) -> Request<'a> {
        let (flags, expiry_ms, operand, value) = (0, 0, 0, &[][..]);
        Request { operation, without_value: false, flags, expiry_ms, operand, key, value }
    }

    /// A write.
    #[must_use]
    pub fn set(key: &'a [u8], value: &'a [u8]) -> Request<'a> {
        Request { value, ..Request::new(Operation::Set, key) }
    }

    /// Bytes of its message.
    #[must_use]
    pub fn bytes(&self) -> usize {
        REQUEST_HEADER_BYTES + self.key.len() + self.value.len()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Status::Malformed`], or [`Status::TooLong`] if a length is not one of K1.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, Status> {
        let (header, rest) = bytes.split_first_chunk().ok_or(Status::Malformed)?;
        let header: &[u8; REQUEST_HEADER_BYTES] = header;
        let [operation, bits, ..] = *header;
        let operation = Operation::from_code(operation).ok_or(Status::Malformed)?;
        let key_bytes = usize::from(u16::from_le_bytes([header[2], header[3]]));
        let value_bytes = word(header, 4) as u32 as usize;
        let timing = word(header, 8);
        let expiry_ms = timing & ((1 << EXPIRY_BITS) - 1);
        let (flags, operand) = ((timing >> EXPIRY_BITS) as u16, word(header, 16));
        let is_wrong = bits > 1
            || (flags != 0 && !operation.writes())
            || (expiry_ms != 0 && !operation.has_expiry())
            || (operand != 0 && !operation.has_operand())
            || (value_bytes != 0 && !operation.has_value());
        if is_wrong || rest.len() != key_bytes + value_bytes {
            return Err(Status::Malformed);
        }
        if key_bytes == 0 || key_bytes > KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX {
            return Err(Status::TooLong);
        }
        let (key, value) = rest.split_at(key_bytes);
        Ok(Request { operation, without_value: bits == 1, flags, expiry_ms, operand, key, value })
    }

    /// Writes its message.
    ///
    /// # Panics
    /// If `to` is not as long as the message, or the expiry has more than 48 bits.
    pub fn write(&self, to: &mut [u8]) {
        assert!(self.expiry_ms >> EXPIRY_BITS == 0, "an expiry has 48 bits");
        let (header, rest) = to.split_at_mut(REQUEST_HEADER_BYTES);
        header[0] = self.operation as u8;
        header[1] = self.without_value.into();
        header[2..4].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        header[4..8].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        let timing = self.expiry_ms | u64::from(self.flags) << EXPIRY_BITS;
        header[8..16].copy_from_slice(&timing.to_le_bytes());
        header[16..].copy_from_slice(&self.operand.to_le_bytes());
        let (key, value) = rest.split_at_mut(self.key.len());
        key.copy_from_slice(self.key);
        value.copy_from_slice(self.value);
    }

    /// Its message.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes()];
        self.write(&mut bytes);
        bytes
    }
}

/// Up to eight bytes of a header, from there on.
fn word(header: &[u8; REQUEST_HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(header[at..at + 8].try_into().expect("there are eight"))
}
