//! RESP, the protocol of Redis (version 2): the same command again and again, pipelined.
//!
//! Replies are read to their end and dropped as they come; of errors the text is kept.

use crate::tcp::{Protocol, Reply};

/// A line of a reply is no longer: a number, a status or an error.
const LINE_BYTES_MAX: usize = 4096;
/// A string is no longer, and an array, with all in it, has no more elements.
const STRING_BYTES_MAX: u64 = 1 << 30;
const ELEMENTS_MAX: u64 = 1 << 24;
/// A command's words are no longer together.
const COMMAND_BYTES_MAX: usize = 1 << 20;

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resp {
    request: Vec<u8>,
}

/// Why something is no command. The caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RespError {
    /// It has no words.
    #[error("a command has a word at least, such as PING")]
    Empty,
    /// The words are too long together.
    #[error("the command has {0} bytes, and {COMMAND_BYTES_MAX} are the most")]
    TooLong(usize),
}

impl Resp {
    /// A command of these words, such as `GET key`.
    ///
    /// # Errors
    /// See [`RespError`].
    pub fn command(words: &[String]) -> Result<Resp, RespError> {
        let bytes: usize = words.iter().map(String::len).sum();
        if words.is_empty() || words[0].is_empty() {
            return Err(RespError::Empty);
        }
        if bytes > COMMAND_BYTES_MAX {
            return Err(RespError::TooLong(bytes));
        }
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        Ok(Resp { request: request.into_bytes() })
    }
}

impl Protocol for Resp {
    type Reader = Value;
    /// Redis answers in order, however many requests it has.
    const OUTSTANDING_MAX: usize = 1 << 16;

    fn request(&mut self) -> &[u8] {
        &self.request
    }

    fn read(reader: &mut Value, input: &[u8]) -> Result<(usize, Option<Reply>), String> {
        reader.read(input)
    }

    fn read_end(_: &mut Value) -> Option<Reply> {
        None
    }
}

/// A reply that is being read.
#[derive(Debug)]
pub struct Value {
    /// How many values are still to come: arrays count as their elements.
    values: u64,
    /// Bytes of a string that are still to come, with the end of its line.
    string: u64,
    /// All values of the reply so far.
    elements: u64,
    error: Option<String>,
}

impl Default for Value {
    fn default() -> Value {
        Value { values: 1, string: 0, elements: 1, error: None }
    }
}

impl Value {
    fn read(&mut self, input: &[u8]) -> Result<(usize, Option<Reply>), String> {
        let read = match self.string {
            0 => self.read_line(input)?,
            left => {
                let read = left.min(input.len() as u64);
                self.string -= read;
                read as usize
            }
        };
        let is_whole = self.values == 0 && self.string == 0;
        Ok((read, is_whole.then(|| self.complete())))
    }

    /// Reads the line that a value begins with, if it is there.
    fn read_line(&mut self, input: &[u8]) -> Result<usize, String> {
        let within = &input[..input.len().min(LINE_BYTES_MAX)];
        let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
            let is_too_long = within.len() == LINE_BYTES_MAX;
            // What is no RESP may have no lines at all.
            let kind = input.first().copied().unwrap_or(b'+');
            return if is_too_long || !b"+-:$*".contains(&kind) {
                Err(wrong(input))
            } else {
                Ok(0)
            };
        };
        let line = input[..end].strip_suffix(b"\r").ok_or_else(|| wrong(input))?;
        let (kind, rest) = line.split_first().ok_or_else(|| wrong(input))?;
        let length = || integer(rest).ok_or_else(|| wrong(input));
        self.values -= 1;
        match kind {
            b'+' => {}
            b':' => drop(length()?),
            b'-' => {
                let text = || String::from_utf8_lossy(rest).into_owned();
                self.error.get_or_insert_with(text);
            }
            b'$' => match length()? {
                -1 => {}
                bytes @ 0.. if bytes as u64 <= STRING_BYTES_MAX => self.string = bytes as u64 + 2,
                bytes => return Err(format!("the reply has a string of {bytes} bytes")),
            },
            b'*' => match length()? {
                -1 => {}
                count @ 0.. if count as u64 <= ELEMENTS_MAX - self.elements => {
                    self.values += count as u64;
                    self.elements += count as u64;
                }
                count => return Err(format!("the reply has an array of {count} elements")),
            },
            _ => return Err(wrong(input)),
        }
        Ok(end + 1)
    }

    /// The reply to the command, and a reader for the next. Errors within arrays are values, and
    /// yet no client asks for them.
    fn complete(&mut self) -> Reply {
        let result = core::mem::take(self).error.map_or(Ok(()), Err);
        Reply { result, stays_open: true }
    }
}

fn integer(digits: &[u8]) -> Option<i64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

fn wrong(input: &[u8]) -> String {
    let start = String::from_utf8_lossy(&input[..input.len().min(16)]).into_owned();
    format!("the reply is no RESP: it begins with {start:?}")
}

#[cfg(test)]
mod tests;
