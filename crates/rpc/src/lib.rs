//! What a typed call is, whoever runs it: requests and responses, the descriptors of services, who
//! called, and everything that is said of a call before it is sent.
//!
//! A [`request::Request`] is a message with its [`request::CallParts`]: metadata, timeout,
//! [`extensions::Extensions`] and the [`origin::Origin`] it came from. `settings` resolves what the
//! program said of a channel and of a call, once. `codec` writes messages into buffers and reads
//! them, `recode` compresses. `intercept` runs the program's hooks around calls.
//!
//! Programs use the `petasos` crate, which re-exports what is theirs. Modules are public here for
//! the crates that run calls: what these share and programs do not name is in this crate's modules
//! or hidden from the documentation, and may change at any time.
//!
//! Invariants: `current` is the only place that knows which call a thread works for. No code of the
//! application's runs under a lock.
//!
//! Boundary rule: knows nothing of loops, channels' connections or servers. It may name what a
//! transport says of a peer, and nothing else of a transport.

pub mod cancelled;
pub mod codec;
pub mod compression;
pub mod current;
pub mod descriptors;
pub mod dynamic;
pub mod extensions;
pub mod intercept;
pub mod limits;
pub mod origin;
pub mod park;
pub mod peer;
pub mod recode;
pub mod request;
pub mod settings;
pub mod timer;

/// Where generated code looks for messages.
use petasos_message as message;
