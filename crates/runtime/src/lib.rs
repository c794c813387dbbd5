//! Runs typed calls. A loop is a thread's endpoint together with its timers and tasks, and with the
//! tables of calls, channels, streams and handlers.
//!
//! How a call runs: the stub encodes the request, takes a place in the loop's table of calls, and
//! puts the place's number into the outbox. In the same turn the loop passes the request to the
//! endpoint. The response's continuation puts the bytes into the place and the task on the ready
//! list, and ready tasks are polled before the turn sends. At the server, the request's handler
//! becomes a future in a slot of its method, and is polled in the turn that received the request.
//!
//! Who may touch what: futures use only the loop's `Local`, never the endpoint. Once a turn, the
//! loop moves work between the two (`turn`). No cell of `Local` is borrowed while code of the
//! application runs.
//!
//! Programs use the `petasos` crate. Modules are public here only for that crate, and may change at
//! any time.
//!
//! Boundary rule: knows calls and the endpoint; nothing of stubs, servers or gRPC, and not what
//! messages contain.

mod agree;
pub mod buffers;
mod by_hand;
mod calls;
mod channels;
mod config;
pub mod dispatcher;
#[cfg(feature = "tokio")]
mod drive;
mod due;
mod ending;
mod handle;
pub mod head;
mod joined;
pub mod keys;
mod lease;
pub mod local;
mod managed;
mod memory;
mod registry;
pub mod relay;
mod relayed;
pub mod remote;
mod retries;
mod runtime;
pub mod shared;
pub mod slow;
pub mod stream_handle;
pub mod streams;
mod succession;
pub mod task;
pub mod thread;
mod timed;
mod turn;
pub mod unpacking;
pub mod workers;

pub use by_hand::Held;
pub use channels::{Dial, Dialled};
pub use config::{LoopConfig, LoopError, PacketTransport, Security, ServeError, ServiceChoice};
pub use handle::ChannelShared;
pub use local::JoinHandle;
pub use petasos_managed::Buffer as ServiceBuffer;
pub use petasos_managed::{ConfigError as ServiceConfigError, ServiceConfig};
pub use registry::{buffer, send};
pub use runtime::Runtime;
pub use slow::{SlowMethod, SlowTurns};
