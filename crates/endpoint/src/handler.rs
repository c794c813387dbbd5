//! Requests as handlers see them.

use petasos_buf::MsgBuf;

use crate::group::GROUP;

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    /// The handle to answer with. If it is dropped, the client waits until its timeout.
    pub handle: RequestHandle,
    /// The method that was called.
    pub method: u16,
    /// The request's bytes.
    pub payload: Payload<'a>,
}

/// The name of a session that receives requests: its index and its generation, in one word. No
/// other session of the endpoint ever has the same name.
///
/// A handle is written when a packet arrives, and its handler reads it at once. If it were read in
/// other pieces than it was written, the read would have to wait until earlier writes have reached
/// the cache, which takes long if sessions are only in memory (failed store forwarding).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerSessionId(u64);

impl ServerSessionId {
    /// Names no session: there are not so many.
    const NONE: ServerSessionId = ServerSessionId(u64::MAX);

    pub(crate) fn new(index: u32, generation: u32) -> ServerSessionId {
        ServerSessionId(u64::from(generation) << 32 | u64::from(index))
    }

    /// The external session with this generation. There is one at a time.
    pub(crate) fn external(generation: u32) -> ServerSessionId {
        ServerSessionId::new(u32::MAX, generation)
    }

    /// The client of a group with this place and generation.
    pub(crate) fn group(place: u32, generation: u32) -> ServerSessionId {
        ServerSessionId::new(GROUP + place, generation)
    }

    /// Whether it is a client of a group, whose requests a router gives to this endpoint.
    #[inline]
    pub fn is_group(self) -> bool {
        self.index() / GROUP == 1
    }

    /// The place of a client of a group, in a table with one place for each. A later client may
    /// have the same.
    pub fn group_place(self) -> u32 {
        self.index() & (GROUP - 1)
    }

    /// Whether its requests are delivered by a carrier ([`crate::ExternalEvent`]).
    #[inline]
    pub fn is_external(self) -> bool {
        self.index() == u32::MAX && self != ServerSessionId::NONE
    }

    /// Its place in a table with one place for each session that exists, apart from clients of
    /// groups ([`ServerSessionId::group_place`]). A later session may have the same.
    #[inline(always)]
    pub fn place(self) -> usize {
        // That of the external session is 0.
        self.index().wrapping_add(1) as usize
    }

    /// Its index among the endpoint's server sessions. A later session may have the same.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.0 as u32
    }

    /// Distinguishes it from earlier sessions with the same index.
    #[inline(always)]
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The name of one of the session's requests.
    pub(crate) fn key(self, request: u64) -> RequestKey {
        RequestKey { session: self, request }
    }
}

/// The right, and duty, to answer one request: with [`crate::Context::respond`] or
/// [`crate::Context::reject`], now or later.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request whose handle is dropped is never answered"]
pub struct RequestHandle {
    pub(crate) session: ServerSessionId,
    pub(crate) request: u64,
}

impl RequestHandle {
    /// The name of the request, valid until a newer request takes its slot.
    #[inline]
    pub fn key(&self) -> RequestKey {
        let RequestHandle { session, request } = *self;
        session.key(request)
    }

    /// Takes the handle out of a request that is only borrowed. What is left there names no
    /// request: answers to it are dropped.
    #[inline(always)]
    pub fn take(&mut self) -> RequestHandle {
        let RequestHandle { session, request } = *self;
        self.session = ServerSessionId::NONE;
        RequestHandle { session, request }
    }
}

/// The name of a request at its server. It gives no right to answer, and is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    pub(crate) session: ServerSessionId,
    pub(crate) request: u64,
}

impl RequestKey {
    /// The session of the request.
    #[inline]
    pub fn session(&self) -> ServerSessionId {
        self.session
    }

    /// The request's number in its session (W5). Of a client of a group, a name of the request that
    /// no other has.
    #[inline]
    pub fn number(&self) -> u64 {
        self.request
    }
}

/// A message's bytes: in the memory that they were received into, or assembled in a buffer.
#[derive(Debug)]
pub enum Payload<'a> {
    /// A single-packet message in the packet I/O's memory; valid until the function returns.
    Frame(&'a [u8]),
    /// A message in its own buffer.
    Buffer(MsgBuf),
}

impl Payload<'_> {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Payload::Frame(bytes) => bytes,
            Payload::Buffer(buf) => buf.as_slice(),
        }
    }
}

impl core::ops::Deref for Payload<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}
