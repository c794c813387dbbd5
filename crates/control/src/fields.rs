//! Reading and writing the little-endian fields of a message's body.

use crate::Malformed;
use crate::text::Text;

/// Reads fields from the front of a body. A short body is an error, never a panic.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { rest: body }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of 40 bits.
    pub(crate) fn u40(&mut self) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes[..5].copy_from_slice(&self.array::<5>()?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A part of the body that has a length of its own.
    pub(crate) fn part(&mut self, count: usize) -> Result<Reader<'a>, Malformed> {
        Ok(Reader::new(self.bytes(count)?))
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Entries up to the end. Each takes bytes, so a body bounds their number.
    pub(crate) fn entries<T>(
        &mut self,
        read: impl Fn(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let mut entries = Vec::new();
        while !self.rest.is_empty() {
            entries.push(read(self)?);
        }
        Ok(entries)
    }

    /// A length byte and that many bytes of UTF-8.
    pub(crate) fn text<const BYTES_MAX: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<Text<BYTES_MAX>, Malformed> {
        let length = usize::from(self.u8()?);
        if length > BYTES_MAX {
            return Err(Malformed::Value(field));
        }
        let text =
            core::str::from_utf8(self.bytes(length)?).map_err(|_| Malformed::Value(field))?;
        Ok(Text::new(text))
    }

    /// Checks the end of a message whose length is fixed by its version.
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}

/// Appends fields to an output buffer.
pub(crate) trait Write {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// The lowest 40 bits.
    fn put_u40(&mut self, value: u64);
    fn put_text<const BYTES_MAX: usize>(&mut self, text: &Text<BYTES_MAX>);
}

impl Write for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u40(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes()[..5]);
    }

    fn put_text<const BYTES_MAX: usize>(&mut self, text: &Text<BYTES_MAX>) {
        const { assert!(BYTES_MAX <= u8::MAX as usize, "one byte holds the length") };
        self.put_u8(text.as_str().len() as u8);
        self.extend_from_slice(text.as_str().as_bytes());
    }
}
