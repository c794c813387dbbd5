//! What a peer can do wrong in the bytes of a call.

/// Bytes that break a rule (R13): the peer's fault, and a retry meets it again. The call ends with
/// `INTERNAL`; the peer's other calls go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Fewer bytes than a head, a fixed part, or a length that was announced.
    #[error("too short")]
    TooShort,
    /// A reserved flag or field is set.
    #[error("a reserved flag or field is set")]
    Reserved,
    /// An encoding that does not exist.
    #[error("no such encoding")]
    Encoding,
    /// The tail's length exceeds what there is.
    #[error("a tail longer than the message")]
    Tail,
    /// An entry of a tail overruns it, or is not what its kind must be.
    #[error("a broken entry in a tail")]
    Entry,
    /// A metadata key or value with bytes that are not allowed.
    #[error("a metadata key or value that is not allowed")]
    Metadata,
    /// Text that is not UTF-8.
    #[error("text that is not UTF-8")]
    Text,
    /// A bind whose version or numbers cannot be.
    #[error("a bind that cannot be")]
    Bind,
    /// A record of a segment that is unknown, or not where it may be.
    #[error("a record that may not be here")]
    Record,
    /// A segment that cannot be the next one or the one after it.
    #[error("a segment with a number that cannot be")]
    Number,
    /// Messages that the receiver has not allowed.
    #[error("messages that were not allowed")]
    Flow,
}
