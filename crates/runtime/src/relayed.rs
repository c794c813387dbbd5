//! The tables of relayed calls and requests (see [`crate::relay`]), and what comes out of them.
//!
//! Who may touch what: `relay` only, and the call table, which reports outcomes.
//!
//! Invariant: a place has a request's handle until the request is answered or nobody waits for the
//! answer; then its generation changes, so that a late answer does nothing.

use std::collections::VecDeque;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::{Answer, Encoding, Metadata, RequestHead, Status};
use petasos_endpoint::{RequestHandle, ServerSessionId};
use petasos_message::Image;
use petasos_rpc::origin::Origin;

use crate::remote::Outcome;

/// What has happened to relayed calls and requests.
#[derive(Debug)]
pub enum Event {
    /// A request has come in.
    Arrived(Arrived),
    /// The request of this name will not be answered: its caller has given it up, or its time is
    /// up. Not said of one that was answered.
    Left(RequestName),
    /// A call has ended.
    Done {
        /// The tag that it was begun with.
        tag: u64,
        /// The response with its head and tail (R5, R7), not compressed; or why there is none.
        outcome: Outcome,
    },
    /// A call has ended, since its server takes no images for its method. Nothing was sent; another
    /// call may be begun with the message in protobuf's encoding.
    Returned {
        /// The tag that it was begun with.
        tag: u64,
        /// The request with its head and tail (R5, R6).
        request: MsgBuf,
    },
}

/// The name of a request that has come in. No other request of the loop has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestName {
    pub(crate) kind: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl RequestName {
    /// The least number that no other request has that waits for its answer now.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// A request that has come in.
#[derive(Debug)]
pub struct Arrived {
    /// By which it is answered.
    pub name: RequestName,
    /// The token of its method.
    pub token: u64,
    /// The request with its head and tail (R5, R6), not compressed.
    pub bytes: MsgBuf,
    /// Its head.
    pub head: RequestHead,
    /// Where it came from.
    pub origin: Origin,
    /// The session that it came over.
    pub session: ServerSessionId,
    /// When its time is up; [`Time::NEVER`] for none.
    pub deadline: Time,
}

/// What answers a request.
#[derive(Debug)]
pub struct Reply {
    /// The response, behind [`ROOM_BYTES`](petasos_message::ROOM_BYTES), and its encoding: native
    /// only if the request's head accepts that. Or why there is none.
    pub result: Result<(Encoding, Image), Status>,
    /// Initial metadata of a success.
    pub metadata: Metadata,
    /// Trailing metadata of a success.
    pub trailers: Metadata,
}

/// The tables of relayed calls and requests.
#[derive(Default)]
pub(crate) struct Relay {
    pub(crate) events: VecDeque<Event>,
    pub(crate) places: Vec<Place>,
    free: Vec<u32>,
}

/// A request, or a free place for one.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) generation: u32,
    waiting: Option<Waiting>,
    pub(crate) reply: Option<Reply>,
}

/// The data to answer a request.
pub(crate) struct Waiting {
    pub(crate) handle: RequestHandle,
    pub(crate) since: Time,
    pub(crate) answer: Answer,
}

impl Relay {
    /// An outcome of a call with a tag.
    pub(crate) fn finish(&mut self, tag: u64, outcome: Outcome) {
        let mut outcome = outcome;
        if let Ok(bytes) = &mut outcome {
            bytes.flatten();
        }
        self.events.push_back(Event::Done { tag, outcome });
    }

    /// The request of a call with a tag was not sent.
    #[cold]
    pub(crate) fn give_back(&mut self, tag: u64, request: Outcome) {
        self.events.push_back(match request {
            Ok(request) => Event::Returned { tag, request },
            outcome => Event::Done { tag, outcome },
        });
    }

    /// A place for a request of this kind of task.
    pub(crate) fn take_place(&mut self, kind: u32, waiting: Waiting) -> RequestName {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[slot as usize];
        place.waiting = Some(waiting);
        RequestName { kind, slot, generation: place.generation }
    }

    /// Frees a place, if a request is in it.
    pub(crate) fn release(&mut self, slot: u32) -> Option<Waiting> {
        let place = self.places.get_mut(slot as usize)?;
        let waiting = place.waiting.take()?;
        place.generation = place.generation.wrapping_add(1);
        place.reply = None;
        self.free.push(slot);
        Some(waiting)
    }

    pub(crate) fn place(&mut self, name: RequestName) -> Option<&mut Place> {
        let place = self.places.get_mut(name.slot as usize)?;
        (place.generation == name.generation && place.waiting.is_some()).then_some(place)
    }
}
