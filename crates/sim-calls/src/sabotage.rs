//! Bugs that are inserted on purpose, to test that the judge finds them.
//!
//! Each is inserted between the application and the runtime, so to the judge it looks like the same
//! bug in the runtime.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Calls that may be sent only once are sent again after they failed.
    SendAgain,
    /// Failed response streams restart, whatever they have delivered.
    BeginAnew,
    /// "The server is gone" is reported as "the server is shutting down", which says that the call
    /// has not run.
    ClaimNotRun,
    /// Every tenth message of a response stream is lost.
    LosePiece,
    /// Every tenth message of a request stream comes twice.
    RepeatPiece,
    /// A byte of a message is altered.
    AlterPiece,
    /// A response stream ends before its last message.
    EndEarly,
    /// A request stream ends for the handler although the client has only paused.
    EndForHandler,
    /// Cancelled calls report an end nevertheless.
    EndCancelled,
    /// Calls end with `UNAVAILABLE` although nothing has failed.
    FailWithoutCause,
    /// A call never ends.
    NeverEnd,
    /// Streams are never dropped, so their halves stay in the loop.
    KeepStreams,
}
