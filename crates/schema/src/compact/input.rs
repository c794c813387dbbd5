//! Untrusted numbers, texts and counts of the compact form.

use super::DecodeError;
use crate::limits::Limits;

/// The bytes that are left to decode.
pub(super) struct Input<'a> {
    rest: &'a [u8],
    length: usize,
    elements: usize,
    elements_max: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(input: &'a [u8], limits: &Limits) -> Input<'a> {
        let elements_max = limits.elements_max;
        Input { rest: input, length: input.len(), elements: 0, elements_max }
    }

    pub(super) fn malformed(&self, what: &'static str) -> DecodeError {
        DecodeError::Malformed { offset: self.length - self.rest.len(), what }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| self.malformed("the end"))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            number |= bits << shift;
            if bits << shift >> shift != bits {
                break;
            }
            if byte & 0x80 == 0 {
                return match byte == 0 && shift > 0 {
                    true => Err(self.malformed("a number with needless bytes")),
                    false => Ok(number),
                };
            }
        }
        Err(self.malformed("a number of more than 64 bits"))
    }

    pub(super) fn index(&mut self) -> Result<usize, DecodeError> {
        let number = self.number()?;
        usize::try_from(number).map_err(|_| self.malformed("a number of more than 64 bits"))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = self.index()?;
        let split = self.rest.split_at_checked(length);
        let (text, rest) = split.ok_or_else(|| self.malformed("a text past the end"))?;
        let text = std::str::from_utf8(text).map_err(|_| self.malformed("text not in UTF-8"))?;
        self.rest = rest;
        Ok(text)
    }

    /// Reads a list. Memory is allocated as elements arrive, so that a count alone costs nothing.
    pub(super) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Input<'a>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.index()?;
        self.elements = self.elements.saturating_add(count);
        if self.elements > self.elements_max {
            return Err(DecodeError::TooLarge { what: "elements", max: self.elements_max });
        }
        // No element is shorter than a byte.
        if count > self.rest.len() {
            return Err(self.malformed("a list past the end"));
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(one(self)?);
        }
        Ok(items)
    }
}
