//! Buffers for long messages, and accounting for the process's long buffers.
//!
//! A long `bytes` field is sent without a copy between the message and the transport. With a
//! managed service there is one: the service has to see the bytes. A [`Buffer`] from
//! [`Channel::buffer`](crate::Channel::buffer) or [`Buffer::for_response`] lies where it sees them.
//!
//! All buffers of 16 KiB or more are counted: those of requests whose handlers wait, of streams, of
//! gRPC connections, and of messages that the program builds. When they reach the limit, the
//! process accepts no more messages of such a length from peers: calls are refused before they run,
//! as an overloaded server does, and streams end with `RESOURCE_EXHAUSTED`. The default limit is
//! half of the memory that is available to the process (of the machine, or of its control group).
//!
//! ```
//! petasos::memory::set_limit(1 << 30);
//! let usage = petasos::memory::usage();
//! assert!(usage.used_bytes <= usage.limit_bytes);
//! print!("{}", usage.to_prometheus());
//! ```

mod buffer;

pub use buffer::Buffer;
pub use petasos_buf::memory::{MemoryUsage, set_limit, usage};
