//! The parts of typed calls that do not depend on what runs the calls: requests and responses,
//! descriptors of services, peers, and the settings of a call before it is sent.
//!
//! A [`request::Request`] is a message with its [`request::CallParts`]: metadata, timeout,
//! [`extensions::Extensions`] and the [`origin::Origin`] it came from. `settings` combines, once
//! per call, what the program has set on a channel and on a call. `codec` encodes messages into
//! buffers and decodes them, `recode` compresses. `intercept` runs the program's hooks around
//! calls.
//!
//! Programs use the `petasos` crate, which re-exports the public part. Modules are public here for
//! the crates that run calls. What these crates share and programs do not name is in this crate's
//! modules, or hidden from the documentation, and may change at any time.
//!
//! Invariants: `current` is the only place that knows which call a thread works on. No code of the
//! application runs under a lock.
//!
//! Boundary rule: knows nothing of loops, channels' connections or servers. Of a transport, it may
//! name only what that says about a peer, and how calls to groups are routed.

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
