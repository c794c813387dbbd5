//! A safe interface to the kernel. This is the only module with `unsafe`.
//!
//! Invariant: a pointer passed to the kernel is made from a borrow that outlives the call, and no
//! pointer is used after the call that it was made for.

mod address;
mod control;
mod messages;
mod options;

pub(crate) use address::SocketAddress;
pub(crate) use messages::{
    Arrival, Message, RECEIVE_MESSAGES_MAX, receive_many, receive_one, send_many, send_one,
};
pub(crate) use options::{bind, open, open_netlink, option, set_option};
