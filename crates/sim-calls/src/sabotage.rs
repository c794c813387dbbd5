//! Bugs that are inserted on purpose, to see that the judge finds them.
//!
//! Each is inserted between the application and the runtime, so to the judge it looks like the same
//! bug in the runtime.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Calls that are to be sent once are sent again when they have failed.
    SendAgain,
    /// Response streams that have failed begin anew, whatever they have brought.
    BeginAnew,
    /// "The server is gone" reaches the client as "the server is shutting down": it has not run.
    ClaimNotRun,
    /// Every tenth message of a response stream is lost.
    LosePiece,
    /// Every tenth message of a request stream comes twice.
    RepeatPiece,
    /// A byte of a message is another.
    AlterPiece,
    /// A response stream ends before its last message.
    EndEarly,
    /// A request stream ends for the handler when the client has only paused.
    EndForHandler,
    /// Calls that were cancelled end all the same.
    EndCancelled,
    /// Calls end with `UNAVAILABLE` although nothing has failed.
    FailWithoutCause,
    /// A call never ends.
    NeverEnd,
    /// Streams are never given up, so that their halves stay in the loop.
    KeepStreams,
}
