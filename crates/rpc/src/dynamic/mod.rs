//! Services without compiled types: their messages are bytes in protobuf's encoding, and their
//! descriptors are made at run time.

#[rustfmt::skip]
mod generated;
mod payload;
mod service;

pub use crate::descriptors::Alive;
pub use generated::Payload;
pub use service::{NameError, Service};
pub use service::{find_by_name, is_untyped, layout_of};
