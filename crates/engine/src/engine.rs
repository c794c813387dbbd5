//! What an engine does.

use crate::{Declare, Decompose, FieldError, MethodId, State, Work};

/// An engine is given at most so many items of each direction at a time (E1).
pub const BATCH_MAX: u32 = 64;

/// A policy's replica in one datapath.
pub trait Engine: Send {
    /// E3: calls of a method will come. Called once for each method, before its first item, and in
    /// a new engine for all that there are. The engine declares here which fields it wants to see.
    ///
    /// # Errors
    /// A field that it needs is not there. The engine is not placed, or the application's schema is
    /// refused.
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        let _ = (method, name, declare);
        Ok(())
    }

    /// E1: takes items with [`Work::next`] until there are none, and does with each what it does.
    /// It never blocks. It is called when there are items, and at the time that it asked for last
    /// ([`Work::wake_at`]).
    fn work(&mut self, work: &mut Work<'_>);

    /// E5: ends the engine. What it holds it gives back, in the order in which it came. Gives what
    /// of its state is not the policy's, if there is such.
    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State>;
}
