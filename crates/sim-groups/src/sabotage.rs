//! Bugs that are inserted on purpose, to test that the judge finds them.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Workers run the handlers of some requests twice.
    RunAgain,
    /// Workers hand bytes of requests to handlers that are not the client's.
    AlterRequest,
    /// Clients take bytes for the response that are not the worker's.
    AlterResponse,
    /// Clients say of calls that may have run that they have not.
    ClaimNotRun,
    /// Clients answer calls that no worker has run.
    AnswerUnasked,
    /// Calls end a second time.
    EndAgain,
    /// Some calls never end.
    NeverEnd,
    /// Workers keep some requests, and never answer them.
    KeepRequests,
}
