//! Protobuf's wire format, as far as descriptors need it: borrowed and untrusted.

use crate::error::LoadError;

/// The fields of one encoded message, in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    /// Where `rest` begins in the whole input.
    offset: usize,
}

/// The value of one field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Bytes(Fields<'a>),
    /// A fixed number or a group; descriptors have neither in fields that matter here.
    Other,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Fields<'a> {
        Fields { rest: input, offset: 0 }
    }

    /// The next field's number and value.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, LoadError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            2 => Value::Bytes(self.delimited()?),
            3 => self.skip_group()?,
            _ => self.skip_fixed(tag)?,
        };
        Ok(Some((tag >> 3, value)))
    }

    /// What is left, as bytes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.rest
    }

    /// What is left, as text.
    pub(crate) fn text(self) -> Result<&'a str, LoadError> {
        std::str::from_utf8(self.rest).map_err(|_| self.malformed("text that is not UTF-8"))
    }

    pub(crate) fn malformed(self, what: &'static str) -> LoadError {
        LoadError::Malformed { offset: self.offset, what }
    }

    pub(crate) fn varint(&mut self) -> Result<u64, LoadError> {
        let mut value = 0;
        for (at, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.take(at + 1)?;
                return Ok(value);
            }
        }
        Err(self.malformed("a number without an end"))
    }

    fn delimited(&mut self) -> Result<Fields<'a>, LoadError> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| self.malformed("a field past the end"))?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<Fields<'a>, LoadError> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.malformed("a field past the end"));
        };
        let taken = Fields { rest: taken, offset: self.offset };
        *self = Fields { rest, offset: self.offset + length };
        Ok(taken)
    }

    fn skip_fixed(&mut self, tag: u64) -> Result<Value<'a>, LoadError> {
        match tag & 7 {
            1 => self.take(8)?,
            5 => self.take(4)?,
            _ => return Err(self.malformed("a field of no known form")),
        };
        Ok(Value::Other)
    }

    /// Custom options can have groups; they are skipped without recursion.
    fn skip_group(&mut self) -> Result<Value<'a>, LoadError> {
        let mut depth = 1;
        while depth > 0 {
            let tag = self.varint()?;
            match tag & 7 {
                0 => drop(self.varint()?),
                2 => drop(self.delimited()?),
                3 => depth += 1,
                4 => depth -= 1,
                _ => drop(self.skip_fixed(tag)?),
            }
        }
        Ok(Value::Other)
    }
}
