//! What generated types implement.

use std::fmt::Debug;
use std::ops::Deref;

use super::MessageType;
use crate::DecodeError;
use crate::edit::Edit;
use crate::plan::Plan;

/// A generated message type; implemented by [`message!`](crate::message!).
///
/// # Safety
/// `TYPE` is what the compiler says of the type: its size, and the offsets and types of its fields.
/// `Mut` lends no `&mut Self`, no part and no value of the type to safe code, and neither does
/// anything else (M12). `Owner` is an `Owner<Self>` in a transparent wrapper.
pub unsafe trait Message: Sized + Send + Sync + PartialEq + Debug + 'static {
    /// The cursor that writes such a message.
    type Mut<'a>: From<Edit<'a, Self>> + Deref<Target = Self>;

    /// What a [`Msg`](crate::Msg) of this type dereferences to: the message, with its setters.
    type Owner: Deref<Target = Self>;

    #[doc(hidden)]
    const TYPE: &'static MessageType;

    /// The message's plan.
    ///
    /// # Panics
    /// On first use, if the type is not laid out as its schema says (M9): the program was built
    /// from pieces that do not belong together.
    fn plan() -> Plan<'static>;

    /// Judges an image of the message as [`crate::validate`] does (M26), sooner if it can.
    ///
    /// # Errors
    /// If any rule of M26 is broken. The sender's fault, always.
    #[doc(hidden)]
    fn validate(image: &[u8]) -> Result<(), DecodeError>;
}
