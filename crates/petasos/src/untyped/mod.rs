//! Calls without compiled-in types: messages are bytes in protobuf's encoding.
//!
//! A service is described by its name and its methods' names ([`Service::named`]), or by
//! descriptors ([`Service::described`]). [`Client`] calls it through any channel, over datagrams or
//! gRPC. It supports all kinds of methods and all features of calls: deadlines, metadata, statuses,
//! and cancellation by dropping.
//!
//! ```no_run
//! use petasos::{Channel, Request, rt::MethodKind, untyped::{Client, Payload, Service}};
//!
//! # async fn example(channel: Channel) -> Result<(), Box<dyn std::error::Error>> {
//! let greeter = Service::named("hello.Greeter", &[("Greet", MethodKind::Unary)])?;
//! let client = Client::new(&channel, greeter);
//! let request = Payload::from_bytes(b"\x0a\x05world")?;
//! let response = client.unary("Greet", Request::new(request))?.await?;
//! println!("{:?}", response.to_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! A message is a [`Payload`], a message type without fields: received bytes are stored as unknown
//! fields, and sent unchanged. The bytes must therefore be a valid protobuf message, and can use
//! every path that typed messages use. They are never sent in the native layout: the bind says that
//! this end has none (R2, R4). A service that is known by names only sends a bind without a hash.
//! It gets the server's schema in return, and finds its methods there by name (R3).
//!
//! Through the managed service, messages are converted in this process, by the service's schema: so
//! only a described service can be called or served there.

mod client;

pub use client::{Both, Client, NoSuchMethod};
#[doc(inline)]
pub use petasos_rpc::dynamic::{Alive, NameError, Payload, Service};
