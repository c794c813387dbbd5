//! Requests as handlers see them.

use petasos_buf::MsgBuf;

use crate::context::Context;

/// What runs for each request of a method, in the event loop ("dispatch"). It should take no
/// longer than a few hundred nanoseconds; it may answer at once, or keep the handle and answer
/// later.
pub type Handler<S> = fn(&mut S, &mut Context<S>, Request<'_>);

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

/// The right, and duty, to answer one request: with [`Context::respond`] or [`Context::reject`],
/// now or later.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request whose handle is dropped is never answered"]
pub struct RequestHandle {
    pub(crate) session: u32,
    pub(crate) generation: u32,
    pub(crate) request: u64,
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
