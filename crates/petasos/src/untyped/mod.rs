//! Calls of which no types are compiled in: the messages are bytes in protobuf's encoding.
//!
//! A service is known by its name and its methods' ([`Service::named`]), or by descriptors
//! ([`Service::described`]). [`Client`] calls it through any channel: all kinds of methods, with
//! everything that calls have (deadlines, metadata, statuses, cancellation by dropping), over
//! datagrams and gRPC alike.
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
//! A message is a [`Payload`], a message type without fields: what comes is kept as unknown fields,
//! byte by byte, and sent likewise. So the bytes must be some message in protobuf's encoding, and
//! all that carries typed messages carries these. They never travel natively: a bind says that this
//! end has no native layout (R2, R4). A service that is known by names only binds without a hash,
//! is answered with the server's schema, and finds its methods there by name (R3).

mod client;

pub use client::{Both, Client, NoSuchMethod};
#[doc(inline)]
pub use petasos_rpc::dynamic::{NameError, Payload, Service};
