//! The errors that a peer can make in the bytes of a call.

/// Bytes that break a rule (R13). The peer's fault, and a retry fails again. The call ends with
/// `INTERNAL`; the peer's other calls continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The bytes end within a head, a fixed part, or an announced length.
    #[error("too short")]
    TooShort,
    /// A reserved flag or field is set.
    #[error("a reserved flag or field is set")]
    Reserved,
    /// An encoding that does not exist.
    #[error("unknown encoding")]
    Encoding,
    /// The tail's length exceeds the message.
    #[error("a tail longer than the message")]
    Tail,
    /// An entry of a tail is longer than the tail, or invalid for its kind.
    #[error("a broken entry in a tail")]
    Entry,
    /// A metadata key or value with bytes that are not allowed.
    #[error("a metadata key or value that is not allowed")]
    Metadata,
    /// Text that is not UTF-8.
    #[error("text that is not UTF-8")]
    Text,
    /// A bind with an invalid version or invalid numbers.
    #[error("a malformed bind request")]
    Bind,
    /// A record of a segment that is unknown, or in the wrong place.
    #[error("a record where it is not allowed")]
    Record,
    /// A segment with an unexpected number: neither the next one nor the one after it.
    #[error("a segment whose number is out of range")]
    Number,
    /// More messages than the receiver has allowed.
    #[error("messages that the receiver has not allowed")]
    Flow,
}
