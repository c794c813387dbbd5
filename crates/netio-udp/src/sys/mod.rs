//! The kernel's interface, made safe: the only module with `unsafe` in it.
//!
//! Invariant: a pointer handed to the kernel is built from a borrow that outlives the call, and no
//! pointer survives the call that it was built for.

mod address;
mod control;
mod messages;
mod options;

pub(crate) use address::SocketAddress;
pub(crate) use messages::{
    Arrival, Message, RECEIVE_MESSAGES_MAX, receive_many, receive_one, send_many, send_one,
};
pub(crate) use options::{bind, open, open_netlink, option, set_option};
