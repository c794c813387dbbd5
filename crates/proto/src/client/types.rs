//! Types that the client's half of a session exchanges with its caller.

use petasos_base::Time;
use petasos_wire::{Encoding, Header, RejectCode};

/// The parameters of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions {
    /// The number of the method.
    pub method: u16,
    /// How the request's bytes are encoded.
    pub encoding: Encoding,
    /// Length of the request, in bytes: at most the session's limit.
    pub request_bytes: u32,
    /// Longest response that the caller accepts, in bytes. The session's limit applies as well.
    pub response_bytes_max: u32,
    /// When the call fails if it is still unanswered; [`Time::NEVER`] for no limit.
    pub timeout_at: Time,
}

/// A call with the caller's context.
#[derive(Debug)]
pub struct Call<C> {
    /// The parameters.
    pub options: CallOptions,
    /// The caller's own data. It is returned exactly once.
    pub context: C,
}

/// What happened to an accepted call.
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
        /// The request's number. The packet is void once the slot has another.
        request: u64,
        /// Which packet of the message.
        index: u32,
        /// Its header.
        header: Header,
    },
    /// A header without payload.
    Bare(Header),
}

/// What a packet from the server means for the caller.
#[derive(Debug)]
pub enum ResponseAction<C> {
    /// Nothing to do: the packet was dropped or only changed internal state.
    None,
    /// The payload is the whole response: [`crate::ClientSession::complete`] the call.
    Complete {
        /// The call's slot.
        slot: u32,
    },
    /// The payload is the start of a response of `bytes`: allocate that much and store it at 0. If
    /// there is no memory, [`crate::ClientSession::cancel`] the call.
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
        /// Whether the response is now complete.
        last: bool,
    },
    /// The response is longer than the call allows. The call is over; send the header.
    Overlong(C, Header),
    /// The server rejected the request; the call is over. `None` is an unassigned code.
    Rejected(C, Option<RejectCode>),
    /// The server does not know the session: every call on it has to fail.
    SessionReset,
}

/// A call whose timeout has passed, and the packet that tells the server, if it knows of the call.
#[derive(Debug)]
pub struct Expired<C> {
    /// The caller's data.
    pub context: C,
    /// The cancellation to send.
    pub cancel: Option<Header>,
}
