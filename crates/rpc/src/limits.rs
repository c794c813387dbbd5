//! How long the messages of a call may be, according to its method's policy.
//!
//! Lengths are those of protobuf's encoding, uncompressed, so that a policy means the same over
//! every transport. A gRPC response is stopped by its reader, before all of it has arrived.
//!
//! Boundary rule: a call whose policy has no limits comes here once, to find that out.

use petasos_call::Status;
use petasos_call::policy::MethodPolicy;
use petasos_message::{Message, Msg};

use crate::intercept::AnyMessage;

/// The longest message of one direction, in bytes, if there is a limit.
pub type BytesMax = Option<u32>;

/// The limits of a method's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The longest request, in bytes.
    pub request: BytesMax,
    /// The longest response, in bytes.
    pub response: BytesMax,
}

impl Limits {
    /// The limits that a policy sets.
    pub fn of(policy: &MethodPolicy) -> Limits {
        let MethodPolicy { request_bytes_max: request, response_bytes_max: response, .. } = *policy;
        Limits { request, response }
    }

    /// Whether there is any limit.
    pub fn is_any(&self) -> bool {
        self.request.is_some() || self.response.is_some()
    }
}

/// Checks a message's length.
///
/// # Errors
/// It is longer than its method's policy allows.
#[inline]
pub fn check<T: Message>(what: &str, message: &Msg<T>, bytes_max: BytesMax) -> Result<(), Status> {
    match bytes_max {
        None => Ok(()),
        Some(bytes_max) => check_length(what, AnyMessage::new(message).protobuf_bytes(), bytes_max),
    }
}

#[cold]
fn check_length(what: &str, bytes: usize, bytes_max: u32) -> Result<(), Status> {
    if bytes <= bytes_max as usize {
        return Ok(());
    }
    let text = format!("a {what} of {bytes} bytes exceeds the policy's limit of {bytes_max}");
    Err(Status::resource_exhausted(text))
}
