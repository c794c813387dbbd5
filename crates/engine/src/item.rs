//! Items, which travel through a datapath.

/// Which way an item goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the application to its peers.
    Outbound,
    /// From peers to the application.
    Inbound,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::Outbound, Direction::Inbound];

    /// The other one.
    pub const fn reverse(self) -> Direction {
        match self {
            Direction::Outbound => Direction::Inbound,
            Direction::Inbound => Direction::Outbound,
        }
    }
}

/// What an item says of its call. Items from the caller and from the callee go in opposite
/// directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// From the caller: the call begins. A unary one has its message.
    Request,
    /// From either: a message of a stream.
    Message,
    /// From the caller: no more messages follow.
    Close,
    /// From the caller, or in place of it if an engine has ended a stream: the callee is to stop.
    Cancel,
    /// From the callee: initial metadata of a stream.
    Head,
    /// From the callee, or in place of it: the call is over. A unary one that succeeded has its
    /// response.
    End,
}

/// One descriptor of a call, on its way through a datapath.
///
/// It is a name: [`Work`](crate::Work) says what there is to know. It cannot be copied. An engine
/// passes it on, holds it, or ends its call; it must not drop it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an item that is dropped is lost until its engine is detached"]
pub struct Item(pub(crate) u32);

impl Item {
    /// Where the service keeps what belongs to the item: the least number that no other item of the
    /// datapath has.
    pub fn index(&self) -> usize {
        self.0 as usize
    }
}
