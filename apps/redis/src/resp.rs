//! Commands as clients send them: arrays of bulk strings, or lines of words (RESP 2).
//!
//! A reader takes bytes as they come and gives whole commands. It looks at no byte twice, but for
//! those of a line that is not whole. It keeps what belongs to the next command only, of which
//! there are at most [`COMMAND_BYTES_MAX`] and what was read at once: a length that a client
//! announces reserves nothing.

/// The longest command, as an array.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;
/// The longest line of words, as in Redis.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The longest line with a number: a sign, digits, and the line's end.
const NUMBER_BYTES_MAX: usize = 24;
/// The shortest argument: `$0`, and two ends of lines.
const ARGUMENT_BYTES_MIN: usize = 6;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name and arguments.
    pub words: Vec<Vec<u8>>,
    /// All of it, as an array of bulk strings.
    pub bytes: Vec<u8>,
}

/// What a client has sent is no RESP, or too long: its fault. The connection cannot be used any
/// more, as nobody knows where the next command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number of an array's elements is none, or too great.
    #[error("invalid multibulk length")]
    Count,
    /// An element is no bulk string.
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NoBulk(u8),
    /// The length of a bulk string is none.
    #[error("invalid bulk length")]
    Length,
    /// A bulk string does not end where it should.
    #[error("a bulk string is longer than announced")]
    NoEnd,
    /// The command is longer than this reader takes.
    #[error("the command is longer than {COMMAND_BYTES_MAX} bytes")]
    TooLong,
    /// A line of words is longer than Redis takes.
    #[error("too big inline request")]
    LongLine,
    /// A line of words has quotes, which would have to be undone.
    #[error("quotes are not supported in inline requests")]
    Quotes,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Reader {
    input: Vec<u8>,
    /// Where the command that is being read begins, and how far it has been read.
    begin: usize,
    at: usize,
    /// Of an array that is being read: how many strings are still to come, and those that have, by
    /// where they are.
    missing: usize,
    words: Vec<core::ops::Range<usize>>,
    /// The length of the string that is being read.
    string: Option<usize>,
}

impl Reader {
    /// Takes more bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.begin > 0 {
            self.input.drain(..self.begin);
            self.at -= self.begin;
            for word in &mut self.words {
                *word = word.start - self.begin..word.end - self.begin;
            }
            self.begin = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// How many bytes are kept.
    pub fn kept_bytes(&self) -> usize {
        self.input.len() - self.begin
    }

    /// The next command, if it is whole.
    ///
    /// # Errors
    /// See [`ProtocolError`]. The reader is of no use afterwards.
    pub fn read(&mut self) -> Result<Option<Command>, ProtocolError> {
        loop {
            if self.at == self.begin {
                match self.input.get(self.at) {
                    None => return Ok(None),
                    Some(b'*') => match self.read_number(ProtocolError::Count)? {
                        None => return Ok(None),
                        // As in Redis: it is nothing, and is not answered.
                        Some(..=0) => self.begin = self.at,
                        Some(count) => self.expect(count)?,
                    },
                    Some(_) => match self.read_line()? {
                        None => return Ok(None),
                        Some(words) if words.is_empty() => {}
                        Some(words) => return Ok(Some(Command { bytes: array(&words), words })),
                    },
                }
            } else if self.missing == 0 {
                return Ok(Some(self.take()));
            } else if !self.read_string()? {
                return Ok(None);
            }
        }
    }

    /// An array of so many strings begins.
    fn expect(&mut self, count: i64) -> Result<(), ProtocolError> {
        let count = usize::try_from(count).map_err(|_| ProtocolError::Count)?;
        if count > COMMAND_BYTES_MAX / ARGUMENT_BYTES_MIN {
            return Err(ProtocolError::Count);
        }
        self.missing = count;
        Ok(())
    }

    /// Reads the next string of an array, as far as it is there. Returns whether all of it is.
    fn read_string(&mut self) -> Result<bool, ProtocolError> {
        let length = match self.string {
            Some(length) => length,
            None => {
                match self.input.get(self.at) {
                    None => return Ok(false),
                    Some(b'$') => {}
                    Some(other) => return Err(ProtocolError::NoBulk(*other)),
                }
                let Some(length) = self.read_number(ProtocolError::Length)? else {
                    return Ok(false);
                };
                let length = usize::try_from(length).map_err(|_| ProtocolError::Length)?;
                let read = self.at - self.begin;
                if length > COMMAND_BYTES_MAX || read + length + 2 > COMMAND_BYTES_MAX {
                    return Err(ProtocolError::TooLong);
                }
                self.string = Some(length);
                length
            }
        };
        let end = self.at + length;
        match self.input.get(end..end + 2) {
            None => return Ok(false),
            Some(b"\r\n") => {}
            Some(_) => return Err(ProtocolError::NoEnd),
        }
        self.words.push(self.at..end);
        (self.at, self.string) = (end + 2, None);
        self.missing -= 1;
        Ok(true)
    }

    /// Reads a line with a kind and a number, if it is there.
    fn read_number(&mut self, wrong: ProtocolError) -> Result<Option<i64>, ProtocolError> {
        let rest = &self.input[self.at..];
        let within = &rest[..rest.len().min(NUMBER_BYTES_MAX)];
        let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
            return if within.len() == NUMBER_BYTES_MAX { Err(wrong) } else { Ok(None) };
        };
        let digits = within[1..end].strip_suffix(b"\r").ok_or(wrong)?;
        let number = number(digits).ok_or(wrong)?;
        self.at += end + 1;
        Ok(Some(number))
    }

    /// Reads a line of words, if it is there.
    fn read_line(&mut self) -> Result<Option<Vec<Vec<u8>>>, ProtocolError> {
        let rest = &self.input[self.begin..];
        let within = &rest[..rest.len().min(LINE_BYTES_MAX)];
        let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
            let is_long = within.len() == LINE_BYTES_MAX;
            return if is_long { Err(ProtocolError::LongLine) } else { Ok(None) };
        };
        let line = within[..end].strip_suffix(b"\r").unwrap_or(&within[..end]);
        if line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
            return Err(ProtocolError::Quotes);
        }
        let words = line.split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
        let words = words.filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect();
        self.begin += end + 1;
        self.at = self.begin;
        Ok(Some(words))
    }

    /// The array that has been read.
    fn take(&mut self) -> Command {
        let words = self.words.drain(..).map(|word| self.input[word].to_vec()).collect();
        let bytes = self.input[self.begin..self.at].to_vec();
        self.begin = self.at;
        Command { words, bytes }
    }
}

/// A number as Redis reads it: no sign but a minus, and no zeros before it.
fn number(digits: &[u8]) -> Option<i64> {
    let text = core::str::from_utf8(digits).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Words as an array of bulk strings.
pub(crate) fn array(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[cfg(test)]
mod tests;
