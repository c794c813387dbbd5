//! What an instance and the functions that it may call share.

use std::sync::Arc;

use wasmi::{Memory, StoreLimits};

use crate::context::Facts;

/// What belongs to an instance while it runs.
pub(super) struct Data {
    pub(super) limits: StoreLimits,
    pub(super) memory: Option<Memory>,
    /// The call that goes on.
    pub(super) token: u64,
    /// By their numbers ([`Input`](petasos_plugin_abi::Input)).
    pub(super) inputs: [Option<Arc<str>>; 3],
    pub(super) facts: Facts,
}
