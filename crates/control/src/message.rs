//! The messages and their bodies (C4 to C14, C21, C22; RT33 to RT37 in `group`).

use crate::codes::{ByeReason, ErrorCode, RefuseCode};
use crate::fields::{Reader, Write};
use crate::frame::{FLAG_SKIPPABLE, write_frame};
use crate::text::{DETAIL_BYTES_MAX, Text};
use crate::{AcceptParams, ConnectParams, GroupMessage, Hello, Malformed, SessionRef, Ticket};

/// Bytes of the longest connect reply: identifier, result, grant with two IPv6 addresses.
pub(crate) const CONNECT_REPLY_BODY_BYTES_MAX: usize = 8 + 1 + 23 + 2 * (3 + 16);
/// Bytes of the longest error message.
pub(crate) const ERROR_BODY_BYTES_MAX: usize = 2 + 1 + DETAIL_BYTES_MAX;

/// One message of the control protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first in each direction.
    Hello(Hello),
    /// A client asks for a session.
    Connect {
        /// The client's name for the attempt, never reused by its process.
        connect_id: u64,
        /// What it asks for.
        params: ConnectParams,
    },
    /// The server's answer.
    ConnectReply {
        /// The attempt that is answered.
        connect_id: u64,
        /// The grant, or why there is none.
        result: Result<AcceptParams, RefuseCode>,
    },
    /// The sender has closed a session. The reference names the receiver's end.
    Disconnect(SessionRef),
    /// The answer to a disconnect, with the same reference.
    DisconnectReply(SessionRef),
    /// Asks for a sign of life.
    Ping {
        /// To be echoed.
        nonce: u64,
    },
    /// Answers a ping.
    Pong {
        /// The ping's.
        nonce: u64,
    },
    /// The sender accepts no new sessions or requests, and will end once idle.
    Drain,
    /// The sender closes the connection on purpose.
    Bye {
        /// Why.
        reason: ByeReason,
    },
    /// The sender gives up on the connection because of what it received.
    Error {
        /// Why, for programs.
        code: ErrorCode,
        /// Why, for people.
        detail: Text<DETAIL_BYTES_MAX>,
    },
    /// From the acceptor: with this ticket the dialler may replace this connection by another.
    Ticket(Ticket),
    /// From the dialler: this connection is to replace the one to which the ticket belongs.
    Resume(Ticket),
    /// The acceptor's answer to a resume.
    Resumed {
        /// Whether the sessions of the earlier connection continue.
        accepted: bool,
    },
    /// From the acceptor: another process serves at the address that the dialler dialled.
    Successor,
    /// Between a router and the clients and workers of its group, since version 1.4.
    Group(GroupMessage),
}

/// The kind of a [`Message::Hello`].
pub(crate) const KIND_HELLO: u8 = 1;
const KIND_CONNECT: u8 = 2;
const KIND_CONNECT_REPLY: u8 = 3;
const KIND_DISCONNECT: u8 = 4;
const KIND_DISCONNECT_REPLY: u8 = 5;
const KIND_PING: u8 = 6;
const KIND_PONG: u8 = 7;
const KIND_DRAIN: u8 = 8;
const KIND_BYE: u8 = 9;
const KIND_ERROR: u8 = 10;
const KIND_TICKET: u8 = 11;
const KIND_RESUME: u8 = 12;
const KIND_RESUMED: u8 = 13;
const KIND_SUCCESSOR: u8 = 14;

/// Means "accepted" in the place of a refuse code.
const ACCEPTED: u8 = 0;
/// Means "accepted", and that the grant ends with a local name (C17).
const ACCEPTED_BESIDE: u8 = 255;

impl Message {
    /// The kind that the frame's header carries.
    pub const fn kind(&self) -> u8 {
        match self {
            Message::Hello(_) => KIND_HELLO,
            Message::Connect { .. } => KIND_CONNECT,
            Message::ConnectReply { .. } => KIND_CONNECT_REPLY,
            Message::Disconnect(_) => KIND_DISCONNECT,
            Message::DisconnectReply(_) => KIND_DISCONNECT_REPLY,
            Message::Ping { .. } => KIND_PING,
            Message::Pong { .. } => KIND_PONG,
            Message::Drain => KIND_DRAIN,
            Message::Bye { .. } => KIND_BYE,
            Message::Error { .. } => KIND_ERROR,
            Message::Ticket(_) => KIND_TICKET,
            Message::Resume(_) => KIND_RESUME,
            Message::Resumed { .. } => KIND_RESUMED,
            Message::Successor => KIND_SUCCESSOR,
            Message::Group(message) => message.kind(),
        }
    }

    /// Appends the message's frame to `out`. Field values that the documentation excludes are
    /// encoded unchecked; a receiver refuses them.
    ///
    /// # Panics
    /// If what a router tells exceeds a frame: see [`Told::body_bytes`](crate::Told::body_bytes).
    pub fn encode(&self, out: &mut Vec<u8>) {
        // Kinds 11 and up may be skipped (C2).
        let flags = if self.kind() >= KIND_TICKET { FLAG_SKIPPABLE } else { 0 };
        write_frame(out, self.kind(), flags, |body| self.write_body(body));
    }

    /// Decodes the message of `kind` in `body`.
    ///
    /// # Errors
    /// The sender's fault; see [`Malformed`]. Every byte string gives a message or an error.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Message, Malformed> {
        if kind == KIND_HELLO {
            return Hello::read(body).map(Message::Hello);
        }
        let mut reader = Reader::new(body);
        let message = Message::read_body(kind, &mut reader)?;
        reader.finish()?;
        Ok(message)
    }

    fn write_body(&self, body: &mut Vec<u8>) {
        match self {
            Message::Hello(hello) => hello.write(body),
            Message::Connect { connect_id, params } => {
                body.put_u64(*connect_id);
                params.write(body);
            }
            Message::ConnectReply { connect_id, result } => {
                body.put_u64(*connect_id);
                match result {
                    Ok(params) => {
                        let beside = params.local.is_some();
                        body.put_u8(if beside { ACCEPTED_BESIDE } else { ACCEPTED });
                        params.write(body);
                    }
                    Err(code) => body.put_u8(code.to_bits()),
                }
            }
            Message::Disconnect(session) | Message::DisconnectReply(session) => session.write(body),
            Message::Ping { nonce } | Message::Pong { nonce } => body.put_u64(*nonce),
            Message::Drain | Message::Successor => {}
            Message::Bye { reason } => body.put_u8(reason.to_bits()),
            Message::Error { code, detail } => {
                body.put_u16(code.to_bits());
                body.put_text(detail);
            }
            Message::Ticket(ticket) | Message::Resume(ticket) => ticket.write(body),
            Message::Resumed { accepted } => body.put_u8(u8::from(!accepted)),
            Message::Group(message) => message.write(body),
        }
    }

    fn read_body(kind: u8, reader: &mut Reader<'_>) -> Result<Message, Malformed> {
        Ok(match kind {
            KIND_CONNECT => {
                Message::Connect { connect_id: reader.u64()?, params: ConnectParams::read(reader)? }
            }
            KIND_CONNECT_REPLY => Message::ConnectReply {
                connect_id: reader.u64()?,
                result: match reader.u8()? {
                    ACCEPTED => Ok(AcceptParams::read(reader, false)?),
                    ACCEPTED_BESIDE => Ok(AcceptParams::read(reader, true)?),
                    code => Err(RefuseCode::from_bits(code)),
                },
            },
            KIND_DISCONNECT => Message::Disconnect(SessionRef::read(reader)?),
            KIND_DISCONNECT_REPLY => Message::DisconnectReply(SessionRef::read(reader)?),
            KIND_PING => Message::Ping { nonce: reader.u64()? },
            KIND_PONG => Message::Pong { nonce: reader.u64()? },
            KIND_DRAIN => Message::Drain,
            KIND_BYE => Message::Bye { reason: ByeReason::from_bits(reader.u8()?) },
            KIND_ERROR => Message::Error {
                code: ErrorCode::from_bits(reader.u16()?),
                detail: reader.text("detail")?,
            },
            KIND_TICKET => Message::Ticket(Ticket::read(reader)?),
            KIND_RESUME => Message::Resume(Ticket::read(reader)?),
            KIND_RESUMED => Message::Resumed {
                accepted: match reader.u8()? {
                    0 => true,
                    1 => false,
                    _ => return Err(Malformed::Value("result")),
                },
            },
            KIND_SUCCESSOR => Message::Successor,
            kind if GroupMessage::has_kind(kind) => {
                Message::Group(GroupMessage::read(kind, reader)?)
            }
            unknown => return Err(Malformed::UnknownKind(unknown)),
        })
    }
}
