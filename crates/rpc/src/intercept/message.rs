//! Messages as interceptors see them, whose type they may not know.

use core::any::Any;
use core::fmt;

use petasos_message::{Message, Msg, Reflect};

/// A message of any type. It can be read through its schema, or downcast to its type.
#[derive(Clone, Copy)]
pub struct AnyMessage<'a>(&'a dyn Erased);

/// The operations on messages of all types.
trait Erased: Any {
    fn reflect(&self) -> Reflect<'_>;
    fn append_protobuf(&self, out: &mut Vec<u8>) -> bool;
}

impl<T: Message> Erased for Msg<T> {
    fn reflect(&self) -> Reflect<'_> {
        Reflect::of(self.as_ref())
    }

    fn append_protobuf(&self, out: &mut Vec<u8>) -> bool {
        Msg::append_protobuf(self, out).is_ok()
    }
}

impl<'a> AnyMessage<'a> {
    #[doc(hidden)]
    pub fn new<T: Message>(message: &'a Msg<T>) -> AnyMessage<'a> {
        AnyMessage(message)
    }

    /// The message, if it has this type.
    pub fn downcast<T: Message>(self) -> Option<&'a T> {
        let message: &dyn Any = self.0;
        message.downcast_ref::<Msg<T>>().map(AsRef::as_ref)
    }

    /// The message, field by field.
    pub fn reflect(self) -> Reflect<'a> {
        self.0.reflect()
    }

    /// The full name of its type.
    pub fn type_name(self) -> &'a str {
        self.reflect().message().full_name()
    }

    /// Its length in protobuf's encoding, in bytes, uncompressed: the same on all transports. This
    /// encodes the message, into memory that the thread keeps. Zero if it is too large to be
    /// encoded.
    pub fn protobuf_bytes(self) -> usize {
        thread_local! {
            static SCRATCH: core::cell::RefCell<Vec<u8>> = const {
                core::cell::RefCell::new(Vec::new())
            };
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            let bytes = if self.0.append_protobuf(scratch) { scratch.len() } else { 0 };
            // So that one long message does not occupy memory for good.
            scratch.clear();
            scratch.shrink_to(SCRATCH_BYTES_MAX);
            bytes
        })
    }
}

/// The most bytes that a thread keeps for [`AnyMessage::protobuf_bytes`].
const SCRATCH_BYTES_MAX: usize = 64 << 10;

impl fmt::Debug for AnyMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyMessage").field("type", &self.type_name()).finish_non_exhaustive()
    }
}
