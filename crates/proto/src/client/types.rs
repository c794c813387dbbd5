//! What passes between the client's half of a session and its caller.

use petasos_base::Time;
use petasos_wire::{Encoding, Header, RejectCode};

/// What is asked of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions {
    /// Which handler is meant.
    pub method: u16,
    /// How the request's bytes are to be read.
    pub encoding: Encoding,
    /// Length of the request, in bytes: at most the session's limit.
    pub request_bytes: u32,
    /// Longest response that the caller takes, in bytes; the session's limit holds as well.
    pub response_bytes_max: u32,
    /// When the call fails if it has not been answered; [`Time::NEVER`] for never.
    pub timeout_at: Time,
}

/// A call and what the caller keeps with it.
#[derive(Debug)]
pub struct Call<C> {
    /// What is asked.
    pub options: CallOptions,
    /// The caller's own data; it comes back exactly once.
    pub context: C,
}

/// Where an accepted call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The call's number in its session, for [`crate::ClientSession::cancel`].
    pub call: u64,
    /// Whether it has a slot already; otherwise it waits for one.
    pub started: bool,
}

/// A call whose only packet is to be sent now.
#[derive(Debug)]
pub struct Sent<'a, C> {
    /// The call's number in its session, for [`crate::ClientSession::cancel`].
    pub call: u64,
    /// The call's slot.
    pub slot: u32,
    /// The request's number.
    pub request: u64,
    /// The packet's header.
    pub header: Header,
    /// The call's context.
    pub context: &'a mut C,
}

/// A packet to be sent now.
#[derive(Clone, Copy, Debug)]
pub enum Transmit {
    /// Packet `index` of the request in `slot`.
    Request {
        /// The slot.
        slot: u32,
        /// The request's number; the packet is void once the slot has another.
        request: u64,
        /// Which packet of the message.
        index: u32,
        /// Its header.
        header: Header,
    },
    /// A bare header.
    Bare(Header),
}

/// What a packet from the server means for the caller.
#[derive(Debug)]
pub enum ResponseAction<C> {
    /// Nothing: the packet was dropped or only moved internal state.
    None,
    /// The payload is the whole response: [`crate::ClientSession::complete`] the call.
    Complete {
        /// The call's slot.
        slot: u32,
    },
    /// The payload begins a response of `bytes`: provide that much room and store it at 0.
    /// If there is no room, [`crate::ClientSession::cancel`] the call.
    Begin {
        /// The call's slot.
        slot: u32,
        /// Length of the whole response.
        bytes: u32,
    },
    /// Store the payload at `offset` of the response in `slot`. After the `last` one, call
    /// [`crate::ClientSession::finish`].
    Store {
        /// The call's slot.
        slot: u32,
        /// Where in the message, in bytes.
        offset: u32,
        /// Whether the response is now whole.
        last: bool,
    },
    /// The response is longer than the call allows. The call is over; send the header.
    Overlong(C, Header),
    /// The server rejected the request; the call is over. `None` is an unassigned code.
    Rejected(C, Option<RejectCode>),
    /// The server does not know the session: every call on it has to fail.
    SessionReset,
}

/// A call whose time is up, and the packet that tells the server so, if it knows of the call.
#[derive(Debug)]
pub struct Expired<C> {
    /// The caller's data.
    pub context: C,
    /// The cancellation to send.
    pub cancel: Option<Header>,
}
