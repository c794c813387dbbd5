//! Redis behind a router. A module (`module/`, in C) makes each node a worker of a group; this is
//! for clients.
//!
//! - `resp` reads what clients of Redis send, and `commands` says what each command is.
//! - `rounds` runs commands of one connection: reads on any node, writes on the primary.
//! - `adapter` serves clients that know only Redis' own protocol.
//! - `module` compiles the module, for tests and measurements.
//!
//! The generated client ([`RedisClient`]) is for programs that use the library.
//!
//! Boundary rule: knows commands by their names and classes only, and runs none.

#![forbid(unsafe_code)]

mod adapter;
mod commands;
mod module;
mod resp;
mod rounds;

#[allow(missing_docs, reason = "the .proto file has them")]
mod generated {
    petasos::include_proto!("petasos.redis.v1");
}

pub use adapter::{Adapter, Limits};
pub use commands::{Class, Own, class, refusal};
pub use generated::{Commands, Redis, RedisClient, Replies};
pub use module::{ModuleError, build_module};
pub use resp::{COMMAND_BYTES_MAX, Command, ProtocolError, Reader};
pub use rounds::encode;
