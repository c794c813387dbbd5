//! What generated setters of `Msg` are made of.

use crate::arena::Arena;
use crate::msg::Msg;
use crate::part::Message;

/// A `Msg<T>` as generated code sees it, which wraps it in a type of its own: only there can
/// setters be methods. To swap two of them is to swap the owners, and does no harm.
#[doc(hidden)]
#[repr(transparent)]
pub struct Owner<T>(Msg<T>);

impl<T: Message> Owner<T> {
    /// A cursor that writes the message.
    #[inline(always)]
    pub fn edit(&mut self) -> T::Mut<'_> {
        self.0.edit()
    }

    /// The struct and its arena, for one statement of generated code (M12).
    #[inline(always)]
    pub fn parts(&mut self) -> (&mut T, &Arena) {
        Msg::cursor(&mut self.0).into_parts()
    }

    /// The message.
    #[inline(always)]
    pub fn get(&self) -> &T {
        Msg::get(&self.0)
    }
}
