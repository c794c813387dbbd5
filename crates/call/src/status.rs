//! The outcome of a call: gRPC's codes, and a status with its details.

use std::borrow::Cow;
use std::fmt;

use crate::{Malformed, Metadata};

/// gRPC's canonical codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// The call succeeded.
    Ok = 0,
    /// The caller cancelled the call.
    Cancelled = 1,
    /// An error without a more specific code.
    Unknown = 2,
    /// The request is invalid, whatever the server's state.
    InvalidArgument = 3,
    /// The deadline passed, perhaps after the call had its effect.
    DeadlineExceeded = 4,
    /// The requested entity does not exist.
    NotFound = 5,
    /// The entity to be created exists already.
    AlreadyExists = 6,
    /// The caller has no permission.
    PermissionDenied = 7,
    /// A quota, memory or a limit is exhausted.
    ResourceExhausted = 8,
    /// The server's state does not allow the call. A retry fails until the state changes.
    FailedPrecondition = 9,
    /// A conflict with another change. A retry from the start may succeed.
    Aborted = 10,
    /// A value outside of the valid range, which may change with the server's state.
    OutOfRange = 11,
    /// The server does not have the method, or does not support this use of it.
    Unimplemented = 12,
    /// An invariant is broken.
    Internal = 13,
    /// The server is unreachable now. A retry may succeed.
    Unavailable = 14,
    /// Data are permanently lost or damaged.
    DataLoss = 15,
    /// The caller is not authenticated.
    Unauthenticated = 16,
}

impl Code {
    /// All codes; each one's index is its number.
    pub const ALL: [Code; 17] = [
        Code::Ok,
        Code::Cancelled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];

    const NAMES: [&'static str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];

    /// The code with a number from the wire; numbers above 16 count as `UNKNOWN` (R7).
    pub fn from_number(number: u32) -> Code {
        let known = usize::try_from(number).ok().and_then(|index| Self::ALL.get(index));
        known.copied().unwrap_or(Code::Unknown)
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code with a name in gRPC's spelling, as in service configs: `NOT_FOUND`.
    pub fn from_name(name: &str) -> Option<Code> {
        Self::NAMES.iter().position(|known| *known == name).map(|index| Self::ALL[index])
    }

    /// The name in gRPC's spelling.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The outcome of a call: a code, a message for people, details for programs, and trailing
/// metadata.
///
/// It is one word long, so that a result with it is hardly longer than the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Status(Box<StatusParts>);

#[derive(Clone, PartialEq, Eq)]
struct StatusParts {
    code: Code,
    message: Cow<'static, str>,
    details: Vec<u8>,
    metadata: Metadata,
}

macro_rules! constructors {
    ($($name:ident $code:ident),*) => { $(
        #[doc = concat!("A status of [`Code::", stringify!($code), "`].")]
        pub fn $name(message: impl Into<Cow<'static, str>>) -> Status {
            Status::new(Code::$code, message)
        }
    )* };
}

impl Status {
    /// A status with a message for people. A `&'static str` is not copied.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Status {
        let message = message.into();
        let parts = StatusParts { code, message, details: Vec::new(), metadata: Metadata::new() };
        Status(Box::new(parts))
    }

    /// The status of a call that succeeded. Streams end with it; elsewhere `Ok` means success.
    pub fn ok() -> Status {
        Status::new(Code::Ok, "")
    }

    constructors! {
        cancelled Cancelled, unknown Unknown, invalid_argument InvalidArgument,
        deadline_exceeded DeadlineExceeded, not_found NotFound, already_exists AlreadyExists,
        permission_denied PermissionDenied, resource_exhausted ResourceExhausted,
        failed_precondition FailedPrecondition, aborted Aborted, out_of_range OutOfRange,
        unimplemented Unimplemented, internal Internal, unavailable Unavailable,
        data_loss DataLoss, unauthenticated Unauthenticated
    }

    /// Sets the details: a serialized `google.rpc.Status`.
    #[must_use]
    pub fn with_details(mut self, details: Vec<u8>) -> Status {
        self.0.details = details;
        self
    }

    /// Replaces the trailing metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Status {
        self.0.metadata = metadata;
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The message for people; may be empty.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The details: a serialized `google.rpc.Status`, or empty.
    pub fn details(&self) -> &[u8] {
        &self.0.details
    }

    /// The trailing metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    /// The trailing metadata, mutable.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.0.metadata
    }
}

/// R13: a protocol violation of a peer ends the call with `INTERNAL`.
impl From<Malformed> for Status {
    fn from(malformed: Malformed) -> Status {
        Status::internal(format!("malformed: {malformed}"))
    }
}

/// Control characters in the message are escaped, because it may come from a peer.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code().name())?;
        if !self.message().is_empty() {
            f.write_str(": ")?;
        }
        for character in self.message().chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status")
            .field("code", &self.code())
            .field("message", &self.message())
            .field("details_bytes", &self.details().len())
            .field("metadata", self.metadata())
            .finish()
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r7_codes_have_grpcs_numbers_and_others_are_unknown() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(code.number()), number);
            assert_eq!(Code::from_number(u32::from(code.number())), code);
            assert_eq!(Code::from_name(code.name()), Some(code));
        }
        assert_eq!(Code::from_number(17), Code::Unknown);
        assert_eq!(Code::from_number(u32::MAX), Code::Unknown);
        assert_eq!(Code::from_name("Ok"), None);
        assert_eq!((Code::Unimplemented.number(), Code::Unauthenticated.number()), (12, 16));
    }

    #[test]
    fn a_status_is_one_word_and_keeps_what_it_is_given() {
        assert_eq!(size_of::<Result<(), Status>>(), size_of::<usize>());
        let mut metadata = Metadata::new();
        metadata.append("a", "b").unwrap();
        let mut status =
            Status::not_found("no\u{1b}").with_details(vec![1]).with_metadata(metadata);
        status.metadata_mut().append("c", "d").unwrap();
        assert_eq!((status.code(), status.message()), (Code::NotFound, "no\u{1b}"));
        assert_eq!((status.details(), status.metadata().len()), (&[1][..], 2));
        assert_eq!(status.to_string(), "NOT_FOUND: no\\u{1b}");
        assert_eq!(Status::ok().to_string(), "OK");
    }

    #[test]
    fn r13_what_is_malformed_is_internal() {
        let status = Status::from(Malformed::TooShort);
        assert_eq!(status.code(), Code::Internal);
        assert!(status.message().contains("malformed"), "{status}");
    }
}
