//! Numbers that cross the boundary.

use std::error::Error;
use std::fmt;

/// Declares an enum of numbers that are given in order, from 0 on, and its inverse.
macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident { $($(#[$of:meta])* $member:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$of])* $member,)* }

        impl $name {
            /// All, by number.
            pub const ALL: &[$name] = &[$($name::$member,)*];

            /// The one of a number.
            pub fn from_number(number: u32) -> Option<$name> {
                $name::ALL.get(number as usize).copied()
            }
        }
    };
}

numbers! {
    /// Kinds of items (`docs/spec/engine.md`).
    ItemKind {
        /// From the caller: the call begins. A unary one has its message.
        Request,
        /// From either: a message of a stream.
        Message,
        /// From the caller: no more messages follow.
        Close,
        /// From the caller, or in place of it: the callee is to stop.
        Cancel,
        /// From the callee: initial metadata of a stream.
        Head,
        /// From the callee, or in place of it: the call is over.
        End,
    }
}

numbers! {
    /// Kinds of fields.
    FieldKind {
        /// A bool.
        Bool,
        /// Any signed integer, or an enum.
        Signed,
        /// Any unsigned integer.
        Unsigned,
        /// A float or double.
        Float,
        /// A string.
        Text,
        /// Bytes.
        Bytes,
    }
}

numbers! {
    /// What a module can ask `input` for.
    Input {
        /// The configuration.
        Configuration,
        /// The state of an earlier engine.
        State,
        /// The method's name.
        Method,
    }
}

numbers! {
    /// What a module can ask `item` for.
    Fact {
        /// The call's number.
        Call,
        /// The time of this batch, in ns.
        Now,
        /// When the item came, in ns.
        Arrived,
        /// The call's deadline, in ns.
        Deadline,
        /// The item's kind.
        Kind,
        /// See [`IS_STREAM`] and what follows it.
        Flags,
        /// The application's number.
        Application,
        /// The peer's number.
        Peer,
        /// The method's number.
        Method,
        /// Bytes of the item's message.
        Bytes,
        /// Of an end: the status.
        Status,
        /// The attempt's number.
        Attempt,
    }
}

numbers! {
    /// Statuses, by gRPC's numbers.
    Code {
        /// The call succeeded.
        Ok,
        /// The caller gave the call up.
        Cancelled,
        /// Nothing else fits.
        Unknown,
        /// The request makes no sense, whatever the state of the system.
        InvalidArgument,
        /// The deadline is over.
        DeadlineExceeded,
        /// There is no such thing.
        NotFound,
        /// There is such a thing already.
        AlreadyExists,
        /// The caller is known, and may not do this.
        PermissionDenied,
        /// There is not enough of something: a quota, memory.
        ResourceExhausted,
        /// The system is not in the state that this needs.
        FailedPrecondition,
        /// Something else came between; the whole sequence may be tried again.
        Aborted,
        /// It is beyond the valid range.
        OutOfRange,
        /// There is no such method.
        Unimplemented,
        /// Something is broken.
        Internal,
        /// It cannot be reached now; a retry may succeed.
        Unavailable,
        /// Data is lost or damaged.
        DataLoss,
        /// The caller is not known.
        Unauthenticated,
    }
}

/// Stands for any kind of fields where one is asked for.
pub const ANY_KIND: u32 = 255;

/// A flag of items: the call is a stream.
pub const IS_STREAM: u32 = 1;
/// A flag of items: the call's method has no side effects that a repetition could show.
pub const IS_IDEMPOTENT: u32 = 2;
/// A flag of items: the call's session is sealed.
pub const IS_SEALED: u32 = 4;
/// A flag of items: it goes from the caller to the callee.
pub const IS_FROM_CALLER: u32 = 8;
/// A flag of items: it comes to the application.
pub const IS_INBOUND: u32 = 16;

/// What functions of the service return if they fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Failure {
    /// The token is not valid here.
    Gone = -1,
    /// An argument is wrong.
    Invalid = -2,
    /// There is no such thing.
    Absent = -3,
    /// There is no room.
    Full = -4,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Gone => "this cannot be done now",
            Failure::Invalid => "an argument is wrong",
            Failure::Absent => "there is no such thing",
            Failure::Full => "there is no room",
        })
    }
}

impl Error for Failure {}

/// What the functions of a plug-in that make something return if they succeed.
pub const OK: i32 = 0;
/// The same, if the configuration is wrong.
pub const WRONG_CONFIGURATION: i32 = 1;
/// The same, if the state is wrong.
pub const WRONG_STATE: i32 = 2;

/// The verdict that an item passes. Others are a [`Code`], with which its call ends.
pub const PASS: u32 = 0;

// `layout.c` asserts the same of the header.
const _: () = {
    assert!(ItemKind::Request as u32 == 0);
    assert!(ItemKind::Cancel as u32 == 3);
    assert!(ItemKind::End as u32 == 5);
    assert!(FieldKind::Bool as u32 == 0);
    assert!(FieldKind::Float as u32 == 3);
    assert!(FieldKind::Bytes as u32 == 5);
    assert!(Code::Unauthenticated as u32 == 16);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_their_names() {
        for kind in FieldKind::ALL {
            assert_eq!(FieldKind::from_number(*kind as u32), Some(*kind));
        }
        assert_eq!(FieldKind::from_number(FieldKind::ALL.len() as u32), None);
        assert_eq!(FieldKind::from_number(ANY_KIND), None);
    }
}
