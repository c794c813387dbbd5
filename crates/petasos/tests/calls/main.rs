//! Unary calls, in one program: each module is about one thing that users expect of them.
//!
//! What needs a process of its own (an allocator, a global subscriber, the account of the process's
//! memory) is a test program of its own beside this folder.

#[path = "../../../endpoint/tests/certificates/mod.rs"]
mod certificates;
#[path = "../flaky/mod.rs"]
mod flaky;
#[path = "../flow/mod.rs"]
mod flow;
#[path = "../greeter/mod.rs"]
mod greeter;
#[path = "../hooks/mod.rs"]
mod hooks;
#[cfg(feature = "grpc")]
#[path = "../refuser/mod.rs"]
mod refuser;
#[path = "../servers/mod.rs"]
mod servers;
#[path = "../versions/mod.rs"]
mod versions;

mod cancelled;
mod channels;
mod compression;
mod forms;
mod generated;
mod grpc;
mod grpc_limits;
mod hedges;
mod intercept;
mod intercept_matrix;
mod ipv6;
mod large;
mod limits;
mod on_tokio;
mod peers;
mod relay;
mod resume;
mod retries;
mod retries_grpc;
mod security;
mod server;
mod threads;
mod unary;
mod untyped;
