//! An application's requests for other things than memory (D13): to bind a service of its schema,
//! and to call or serve under a name.

use core::fmt;

use petasos_abi::HEAP_BYTES_MAX;

use crate::frame::{Malformed, Reader, write_frame};
use crate::kind;
use crate::reason::Text;

/// Bytes of what names a schema.
pub const DIGEST_BYTES: usize = 32;
/// From this version on, a schema can be named instead of sent.
pub const RECALL_VERSION: u16 = 3;

/// What an application asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To bind a service of a schema. The answer is the number that its requests name.
    Bind {
        /// Where in the send heap the schema lies, in its compact form. It is read before the
        /// answer.
        offset: u64,
        /// Bytes, at least one.
        bytes: u32,
        /// Whether the application serves it; it may call it in any case.
        is_served: bool,
        /// The service's full name.
        service: Text,
    },
    /// The same, of a schema that the service may know: the bytes are not sent.
    Recall {
        /// SHA-256 of the schema in its compact form.
        digest: [u8; DIGEST_BYTES],
        /// Whether the application serves it; it may call it in any case.
        is_served: bool,
        /// The service's full name.
        service: Text,
    },
    /// To call a name. The answer is its number.
    Target(Text),
    /// To serve what it has bound, under a name.
    Serve(Text),
}

/// What the service answers to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request this answers.
    pub request: u32,
    /// The number of a binding or target, or 0; or why not.
    pub result: Result<u32, NotDone>,
}

/// Why the service has not done what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// It refuses; the text says why.
    Refused(Text),
    /// It does not know the schema that was named: ask with its bytes.
    Unknown,
}

impl From<Text> for NotDone {
    fn from(why: Text) -> NotDone {
        NotDone::Refused(why)
    }
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDone::Refused(why) => why.fmt(f),
            NotDone::Unknown => f.write_str("the schema is not known"),
        }
    }
}

impl Ask {
    /// The request that a frame's body is: its number, and what is asked.
    pub(crate) fn read(kind: u8, body: &[u8]) -> Result<(u32, Ask), Malformed> {
        let mut reader = Reader::new(body);
        let request = reader.u32()?;
        let ask = match kind {
            kind::BIND => {
                let (offset, bytes) = (reader.u64()?, reader.u32()?);
                if bytes == 0 || offset >= HEAP_BYTES_MAX {
                    return Err(Malformed::Value("schema"));
                }
                let is_served = read_use(&mut reader)?;
                Ask::Bind { offset, bytes, is_served, service: Text::read(&mut reader)? }
            }
            kind::RECALL => {
                let (digest, is_served) = (reader.array()?, read_use(&mut reader)?);
                Ask::Recall { digest, is_served, service: Text::read(&mut reader)? }
            }
            kind::TARGET => Ask::Target(Text::read(&mut reader)?),
            _ => Ask::Serve(Text::read(&mut reader)?),
        };
        reader.finish()?;
        if request == 0 {
            return Err(Malformed::Value("request"));
        }
        Ok((request, ask))
    }

    /// Appends the frame to `out`.
    pub(crate) fn write(&self, request: u32, out: &mut Vec<u8>) {
        let kind = match self {
            Ask::Bind { .. } => kind::BIND,
            Ask::Recall { .. } => kind::RECALL,
            Ask::Target(_) => kind::TARGET,
            Ask::Serve(_) => kind::SERVE,
        };
        write_frame(out, kind, |out| {
            out.extend_from_slice(&request.to_le_bytes());
            match self {
                Ask::Bind { offset, bytes, is_served, service } => {
                    out.extend_from_slice(&offset.to_le_bytes());
                    out.extend_from_slice(&bytes.to_le_bytes());
                    out.push(u8::from(*is_served));
                    service.write(out);
                }
                Ask::Recall { digest, is_served, service } => {
                    out.extend_from_slice(digest);
                    out.push(u8::from(*is_served));
                    service.write(out);
                }
                Ask::Target(name) | Ask::Serve(name) => name.write(out),
            }
        });
    }
}

/// Whether an application serves what it binds.
fn read_use(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed::Value("use of a service")),
    }
}

impl Answer {
    /// The answer that a frame's body is.
    pub(crate) fn read(body: &[u8]) -> Result<Answer, Malformed> {
        let mut reader = Reader::new(body);
        let (request, code, number) = (reader.u32()?, reader.u8()?, reader.u32()?);
        let text = Text::read(&mut reader)?;
        reader.finish()?;
        if request == 0 {
            return Err(Malformed::Value("request"));
        }
        let result = match code {
            0 if text.as_str().is_empty() => Ok(number),
            1 if number == 0 => Err(NotDone::Refused(text)),
            2 if number == 0 && text.as_str().is_empty() => Err(NotDone::Unknown),
            _ => return Err(Malformed::Value("answer")),
        };
        Ok(Answer { request, result })
    }

    /// Appends the frame to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_frame(out, kind::ANSWER, |out| {
            let none = Text::default();
            let (code, number, text) = match &self.result {
                Ok(number) => (0, *number, &none),
                Err(NotDone::Refused(why)) => (1, 0, why),
                Err(NotDone::Unknown) => (2, 0, &none),
            };
            out.extend_from_slice(&self.request.to_le_bytes());
            out.push(code);
            out.extend_from_slice(&number.to_le_bytes());
            text.write(out);
        });
    }
}
