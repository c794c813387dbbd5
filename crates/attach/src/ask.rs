//! What an application asks for beside memory (D13): to bind a service of its schema, and to call
//! or serve under a name.

use petasos_abi::HEAP_BYTES_MAX;

use crate::frame::{Malformed, Reader, write_frame};
use crate::kind;
use crate::reason::Text;

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
    /// To call a name. The answer is its number.
    Target(Text),
    /// To serve what it has bound, under a name.
    Serve(Text),
}

/// What the service answers to an [`Ask`]: a number, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request this answers.
    pub request: u32,
    /// The number of a binding or target, or 0; or a reason.
    pub result: Result<u32, Text>,
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
                let is_served = match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed::Value("use of a service")),
                };
                Ask::Bind { offset, bytes, is_served, service: Text::read(&mut reader)? }
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
                Ask::Target(name) | Ask::Serve(name) => name.write(out),
            }
        });
    }
}

impl Answer {
    /// The answer that a frame's body is.
    pub(crate) fn read(body: &[u8]) -> Result<Answer, Malformed> {
        let mut reader = Reader::new(body);
        let (request, is_refused, number) = (reader.u32()?, reader.u8()?, reader.u32()?);
        let text = Text::read(&mut reader)?;
        reader.finish()?;
        if request == 0 {
            return Err(Malformed::Value("request"));
        }
        let result = match is_refused {
            0 if text.as_str().is_empty() => Ok(number),
            1 if number == 0 => Err(text),
            _ => return Err(Malformed::Value("answer")),
        };
        Ok(Answer { request, result })
    }

    /// Appends the frame to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_frame(out, kind::ANSWER, |out| {
            out.extend_from_slice(&self.request.to_le_bytes());
            out.push(u8::from(self.result.is_err()));
            out.extend_from_slice(&self.result.as_ref().map_or(0, |number| *number).to_le_bytes());
            let none = Text::default();
            self.result.as_ref().err().unwrap_or(&none).write(out);
        });
    }
}
