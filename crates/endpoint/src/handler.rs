//! Requests as handlers see them.

use petasos_buf::MsgBuf;

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    /// What the answer is addressed to. If it is dropped, the client waits until its timeout.
    pub handle: RequestHandle,
    /// Which method was called.
    pub method: u16,
    /// The request's bytes.
    pub payload: Payload<'a>,
}

/// Names a session that requests come in: its index and its generation, in one word. No other
/// session of the endpoint ever has the same name.
///
/// A handle is written when a packet comes and read by its handler at once. Read in the pieces in
/// which it was written, it does not have to wait until all that was written before has reached the
/// cache, which takes long where sessions lie in memory only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerSessionId(u64);

impl ServerSessionId {
    /// Names none: there are not so many.
    const NONE: ServerSessionId = ServerSessionId(u64::MAX);

    pub(crate) fn new(index: u32, generation: u32) -> ServerSessionId {
        ServerSessionId(u64::from(generation) << 32 | u64::from(index))
    }

    /// Its place among the endpoint's server sessions. A later session may have the same.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.0 as u32
    }

    /// Tells it from the sessions that had its index before.
    #[inline(always)]
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Names one of the session's requests.
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
    /// Names the request, for as long as there is none newer in its place.
    #[inline]
    pub fn key(&self) -> RequestKey {
        let RequestHandle { session, request } = *self;
        session.key(request)
    }

    /// Takes the handle out of a request that is only borrowed. What is left names no request:
    /// answers to it go nowhere.
    #[inline(always)]
    pub fn take(&mut self) -> RequestHandle {
        let RequestHandle { session, request } = *self;
        self.session = ServerSessionId::NONE;
        RequestHandle { session, request }
    }
}

/// Names a request at the server that it came to. It gives no right to answer, and is never used
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    pub(crate) session: ServerSessionId,
    pub(crate) request: u64,
}

impl RequestKey {
    /// The session that the request came in.
    #[inline]
    pub fn session(&self) -> ServerSessionId {
        self.session
    }

    /// The request's number in its session (W5).
    #[inline]
    pub fn number(&self) -> u64 {
        self.request
    }
}

/// Bytes of a message: where they were received, or assembled in a buffer.
#[derive(Debug)]
pub enum Payload<'a> {
    /// A single-packet message in the packet I/O's memory; valid until the function returns.
    Frame(&'a [u8]),
    /// A message in a buffer of its own.
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
