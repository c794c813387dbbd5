//! A call, as engines see it.

use std::sync::Arc;

use petasos_base::Time;

use crate::Direction;

/// A method, by the number that the service has given it. Never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodId(pub u32);

/// An application, by the number that the service has given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Application(pub u32);

/// A thread that runs datapaths, by the number that the service has given it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Runtime(pub u32);

/// Who is at the other end of a call, by the number that the service has given: a server's address,
/// or a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u32);

impl Peer {
    /// Nobody's number.
    pub const NONE: Peer = Peer((1 << 31) - 1);
}

/// A call in its datapath. One that is over is told from a later one of the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The least number that no other call of the datapath has now.
    pub index: u32,
    pub(crate) epoch: u32,
}

impl CallId {
    /// The call as a number, for what an engine's state says of it.
    pub const fn to_number(self) -> u64 {
        (self.epoch as u64) << 32 | self.index as u64
    }

    /// The call of this number, in the datapath that it is from.
    pub const fn from_number(number: u64) -> CallId {
        CallId { index: number as u32, epoch: (number >> 32) as u32 }
    }
}

/// A call, as engines know it.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whose datapath it is in.
    pub application: Application,
    /// The other end.
    pub peer: Peer,
    /// What is called.
    pub method: MethodId,
    /// Where requests go: outbound if the application is the caller.
    pub requests: Direction,
    /// It has streams.
    pub is_stream: bool,
    /// The caller declares that the method may run twice.
    pub is_idempotent: bool,
    /// Its packets are encrypted, and both ends have proved who they are.
    pub is_sealed: bool,
    /// How often it was tried before.
    pub attempt: u8,
    /// When the service took it on.
    pub began: Time,
    /// When its time is up; [`Time::NEVER`] for none.
    pub deadline: Time,
    /// Who calls, or who is called, if that is proved.
    pub identity: Option<Arc<str>>,
}

/// How a call stands in its datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallState {
    /// Items come from both ends.
    Open,
    /// The caller gave it up: everything but its cancel is void.
    Cancelled,
    /// An engine ended it: everything but that end, and the cancel to the callee, is void.
    Ended,
    /// Its end has been taken; items that are still there are void.
    Over,
}
