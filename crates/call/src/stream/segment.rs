//! The content of one direction of an exchange, as values.

use crate::{Answer, Codec, Encoding, Metadata, Status, TraceContext};

/// The bytes of a message, in the driver's representation.
pub trait Body {
    /// Length in bytes, as it is sent.
    fn len(&self) -> usize;

    /// Whether the body has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Body for Vec<u8> {
    fn len(&self) -> usize {
        self.len()
    }
}

/// One message of a stream (R16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<B> {
    /// Encoding of the body.
    pub encoding: Encoding,
    /// Codec of the body.
    pub codec: Codec,
    /// The body's bytes.
    pub body: B,
}

/// The messages of a segment, in order. The first one needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages<B> {
    first: Option<Message<B>>,
    rest: Vec<Message<B>>,
}

impl<B> Messages<B> {
    /// None.
    pub const fn new() -> Messages<B> {
        Messages { first: None, rest: Vec::new() }
    }

    /// Appends a message.
    pub fn push(&mut self, message: Message<B>) {
        match self.first {
            None => self.first = Some(message),
            Some(_) => self.rest.push(message),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &Message<B>> {
        self.first.iter().chain(&self.rest)
    }

    fn map<C>(self, mut body: impl FnMut(B) -> C) -> Messages<C> {
        let mut message = |Message { encoding, codec, body: from }: Message<B>| {
            let body = body(from);
            Message { encoding, codec, body }
        };
        let first = self.first.map(&mut message);
        Messages { first, rest: self.rest.into_iter().map(message).collect() }
    }
}

impl<B> Default for Messages<B> {
    fn default() -> Messages<B> {
        Messages::new()
    }
}

impl<B> Extend<Message<B>> for Messages<B> {
    fn extend<T: IntoIterator<Item = Message<B>>>(&mut self, messages: T) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl<B> IntoIterator for Messages<B> {
    type Item = Message<B>;
    type IntoIter =
        std::iter::Chain<std::option::IntoIter<Message<B>>, std::vec::IntoIter<Message<B>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

/// The record that opens a stream (R16).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// The time until the deadline, in µs; 0 means no deadline.
    pub time_left_us: u64,
    /// The accepted forms of responses.
    pub answer: Answer,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// The call's position in a trace.
    pub trace: Option<TraceContext>,
}

/// The caller's content of an exchange. The only order of its records is: open, messages, close; or
/// a reset alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerSegment<B> {
    /// Number of the stream in its session (R15).
    pub stream: u32,
    /// Number of the segment in its stream (R15).
    pub number: u16,
    /// The answer may have messages (R17).
    pub receive: bool,
    /// Exchanges of the stream that were in progress when this one was sent: fewer than
    /// [`WIDTH_MAX`](super::WIDTH_MAX) (R15).
    pub under_way: u8,
    /// The stream begins.
    pub open: Option<Open>,
    /// Messages.
    pub messages: Messages<B>,
    /// No more messages follow.
    pub close: bool,
    /// The call is given up.
    pub reset: bool,
}

impl<B> CallerSegment<B> {
    /// A segment without records (*bare*).
    pub const fn bare(stream: u32, number: u16, receive: bool) -> CallerSegment<B> {
        CallerSegment {
            stream,
            number,
            receive,
            under_way: 0,
            open: None,
            messages: Messages::new(),
            close: false,
            reset: false,
        }
    }

    /// The same segment with other bodies.
    pub fn map<C>(self, body: impl FnMut(B) -> C) -> CallerSegment<C> {
        CallerSegment {
            stream: self.stream,
            number: self.number,
            receive: self.receive,
            under_way: self.under_way,
            open: self.open,
            messages: self.messages.map(body),
            close: self.close,
            reset: self.reset,
        }
    }

    pub(super) fn is_bare(&self) -> bool {
        self.open.is_none() && self.messages.is_empty() && !self.close && !self.reset
    }
}

/// The server's content of an exchange. The only order of its records is: head, messages, end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSegment<B> {
    /// Number of the exchange that it answers (R15).
    pub number: u16,
    /// The caller may send messages (R17).
    pub send: bool,
    /// More messages wait than fit into the answer (R18).
    pub more: bool,
    /// The stream is over at the server (R18, R19).
    pub ended: bool,
    /// Initial metadata.
    pub head: Option<Metadata>,
    /// Messages.
    pub messages: Messages<B>,
    /// How the stream ended, with trailing metadata.
    pub end: Option<Status>,
}

impl<B> ServerSegment<B> {
    /// Without records.
    pub const fn bare(number: u16, send: bool) -> ServerSegment<B> {
        let messages = Messages::new();
        ServerSegment { number, send, more: false, ended: false, head: None, messages, end: None }
    }

    /// R19: the answer to an exchange of a stream that has ended.
    pub const fn over(number: u16) -> ServerSegment<B> {
        let messages = Messages::new();
        ServerSegment {
            number,
            send: false,
            more: false,
            ended: true,
            head: None,
            messages,
            end: None,
        }
    }

    /// R21: the answer to an exchange of a stream that is refused.
    pub fn refusal(number: u16, status: Status) -> ServerSegment<B> {
        ServerSegment { end: Some(status), ..ServerSegment::over(number) }
    }

    /// The same segment with other bodies.
    pub fn map<C>(self, body: impl FnMut(B) -> C) -> ServerSegment<C> {
        ServerSegment {
            number: self.number,
            send: self.send,
            more: self.more,
            ended: self.ended,
            head: self.head,
            messages: self.messages.map(body),
            end: self.end,
        }
    }

    /// R15: whether its number is that of the exchange that the driver keeps at `index`: at its
    /// number modulo [`WIDTH_MAX`](super::WIDTH_MAX). One that is not is malformed.
    pub fn answers(&self, index: usize) -> bool {
        usize::from(self.number % super::WIDTH_MAX) == index
    }

    pub(super) fn is_bare(&self) -> bool {
        self.head.is_none() && self.messages.is_empty() && self.end.is_none()
    }
}
