//! How calls to groups of workers are routed.

use petasos::{Routing, Status};

use crate::pointer;

/// To any worker, by the policy of the group. Since version 3.
pub const PETASOS_ROUTE_ANY: u32 = 0;
/// To the worker that has joined as primary. Since version 3.
pub const PETASOS_ROUTE_PRIMARY: u32 = 1;
/// To the same worker as other calls with the same key, while its load allows. Since version 3.
pub const PETASOS_ROUTE_KEY: u32 = 2;

/// The greatest priority (RT24).
const PRIORITY_MAX: u8 = 15;

/// How a call to a group of workers is routed. Zeros in all fields but `struct_bytes` are the
/// defaults: it runs at most once, on any worker. Since version 3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_routing {
    /// `sizeof(petasos_routing)`: later versions may have more fields.
    pub struct_bytes: usize,
    /// PETASOS_ROUTE_ANY, …
    pub policy: u32,
    /// What waits in the router goes in this order, the greatest first: 0 to 15.
    pub priority: u8,
    /// The call may run more than once, whatever the schema of its method says. It then goes to a
    /// worker at once, and is sent again if its worker fails.
    pub is_idempotent: bool,
    /// The key, for PETASOS_ROUTE_KEY only.
    pub key: *const u8,
    /// The number of the key's bytes.
    pub key_length: usize,
}

impl pointer::Options for petasos_routing {
    const EARLIER_BYTES: &'static [usize] = &[];
}

/// Parses the options; `None` if they are null.
///
/// # Errors
/// They are invalid: the program's fault.
///
/// # Safety
/// They are null or valid, with `key_length` bytes at `key`.
pub(crate) unsafe fn read(routing: *const petasos_routing) -> Result<Option<Routing>, Status> {
    // SAFETY: the caller's promise.
    let Some(asked) = (unsafe { pointer::options(routing)? }) else { return Ok(None) };
    // SAFETY: the caller's promise.
    let key = unsafe { pointer::slice(asked.key, asked.key_length)? };
    let mut routing = match asked.policy {
        PETASOS_ROUTE_KEY => Routing::by_key(key),
        _ if !key.is_empty() => {
            return Err(Status::invalid_argument("a key is for PETASOS_ROUTE_KEY only"));
        }
        PETASOS_ROUTE_ANY => Routing::default(),
        PETASOS_ROUTE_PRIMARY => Routing::to_primary(),
        other => return Err(Status::invalid_argument(format!("{other} is no route policy"))),
    };
    if asked.priority > PRIORITY_MAX {
        return Err(Status::invalid_argument("the priority is above 15"));
    }
    routing.priority = asked.priority;
    routing.is_idempotent = asked.is_idempotent;
    Ok(Some(routing))
}
