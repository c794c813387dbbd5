//! Buffers in which programs write what they send.

use core::fmt;
use core::ops::{Deref, DerefMut};

use bytes::Bytes;
use petasos_buf::MsgBuf;
use petasos_message::{Message, Payload, buffer, into_bytes};
use petasos_rpc::request::Request;
use petasos_runtime::ServiceBuffer;

/// Memory for a long `bytes` field: written by the program, then given to a message.
///
/// Where calls go through the managed service of the host (`PETASOS_SERVICE`), the service reads
/// the bytes in this buffer, and they are not copied on their way to it. That is so if
///
/// - the buffer has 128 KiB or more, and [`Buffer::is_shared`],
/// - the message has no other field of such a length, and less than 4 KiB beside it,
/// - the whole buffer is sent, in one call at a time: the same bytes in a second call are copied
///   there, as is one that is retried elsewhere,
/// - the call is unary.
///
/// Otherwise it is memory of the process, and all is as with a `Vec`. A buffer goes back, to be
/// used again, when its bytes are dropped and were sent.
///
/// ```
/// # fn example(channel: &petasos::Channel) -> bytes::Bytes {
/// let mut buffer = channel.buffer(8 << 20);
/// buffer.fill(7); // or `read_exact`, `copy_from_slice`, ...
/// buffer.freeze() // or `message.edit().set_data(buffer)`
/// # }
/// ```
pub struct Buffer(Kind);

enum Kind {
    Private(MsgBuf),
    Shared(ServiceBuffer),
}

impl Buffer {
    /// A buffer of so many bytes, their contents unspecified, for the response to a request. On any
    /// thread.
    ///
    /// # Panics
    /// If there are 4 GiB or more: no message can have them.
    pub fn for_response<T: Message>(request: &Request<T>, bytes: usize) -> Buffer {
        let shared = request.loop_id().and_then(|loop_id| petasos_runtime::buffer(loop_id, bytes));
        Buffer::new(shared, bytes)
    }

    pub(crate) fn new(shared: Option<ServiceBuffer>, bytes: usize) -> Buffer {
        assert!(u32::try_from(bytes).is_ok(), "a field holds less than 4 GiB");
        Buffer(shared.map_or_else(|| Kind::Private(buffer(bytes)), Kind::Shared))
    }

    /// Whether the managed service reads it where it is. If not, it is short, there is no service,
    /// or there is no memory for it now; in the last case the next may be.
    pub fn is_shared(&self) -> bool {
        matches!(self.0, Kind::Shared(_))
    }

    /// Shortens the buffer.
    ///
    /// # Panics
    /// If it has fewer bytes.
    pub fn truncate(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "a buffer is not made longer");
        match &mut self.0 {
            Kind::Private(buf) => buf.set_len(bytes),
            Kind::Shared(buffer) => buffer.truncate(bytes),
        }
    }

    /// The buffer as bytes that may be shared.
    pub fn freeze(self) -> Bytes {
        match self.0 {
            Kind::Private(buf) => into_bytes(buf),
            Kind::Shared(buffer) => buffer.freeze(),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Private(buf) => buf,
            Kind::Shared(buffer) => buffer,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kind::Private(buf) => buf.as_mut_slice(),
            Kind::Shared(buffer) => buffer,
        }
    }
}

impl From<Buffer> for Payload<'_> {
    fn from(buffer: Buffer) -> Self {
        buffer.freeze().into()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, is_shared) = (self.len(), self.is_shared());
        f.debug_struct("Buffer").field("bytes", &bytes).field("is_shared", &is_shared).finish()
    }
}

#[cfg(test)]
mod tests {
    use petasos_message::Msg;
    use petasos_message::well_known::Empty;

    use super::*;

    #[test]
    fn without_a_service_it_is_memory_of_the_process() {
        let request = Request::new(Msg::<Empty>::new());
        let mut buffer = Buffer::for_response(&request, 1000);
        assert!(!buffer.is_shared());
        buffer.fill(7);
        buffer.truncate(999);
        assert_eq!(buffer.freeze(), vec![7; 999]);
    }
}
