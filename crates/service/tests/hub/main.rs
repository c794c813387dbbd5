//! Applications of one host, and the calls between them.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod calls;
mod changes;
mod crossing;
mod crossing_chaos;
mod crossing_hostile;
mod crossing_transport;
mod hostile;
mod lent;
mod limits;
mod listeners;
mod mirror;
mod peers;
mod policies;
mod remote;
mod remote_chaos;
mod remote_flow;
mod remote_images;
mod remote_rooms;
mod remote_unread;
mod sealing;
mod stats;
mod streams;
mod support;
mod versions;
