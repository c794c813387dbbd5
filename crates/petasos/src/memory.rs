//! The account of the process's long buffers.
//!
//! Buffers of 16 KiB or more are counted, whoever has them: requests whose handlers wait, streams,
//! connections over gRPC, messages that the program builds. With as many bytes as the limit, no
//! message of such a length is taken from peers: calls are refused before they run, as by a server
//! that is overloaded, and streams end with `RESOURCE_EXHAUSTED`. The limit is half of the memory
//! that the process may have (of the machine, or of its control group), unless it is set.
//!
//! ```
//! petasos::memory::set_limit(1 << 30);
//! let usage = petasos::memory::usage();
//! assert!(usage.used_bytes <= usage.limit_bytes);
//! print!("{}", usage.to_prometheus());
//! ```

pub use petasos_buf::memory::{MemoryUsage, set_limit, usage};
