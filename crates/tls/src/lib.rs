//! TLS 1.3 as Petasos uses it: certificates from PEM, read again when their files change, lists of
//! who may be a peer, and who a peer has proved to be.
//!
//! Trust comes from the authorities that are given, never from the system. [`server_config`] and
//! [`client_config`] are for protocols with clients and servers, such as gRPC; [`PeerTls`] is for
//! processes that are both, and demands certificates of both ends (`docs/spec/control.md`, C16 and
//! C18).
//!
//! Boundary rule: gives `rustls` configurations and connections, which are bytes in and bytes out;
//! never sees a socket or a runtime.

mod config;
mod failure;
mod identity;
mod listed;
mod peer;
mod pem;
mod reload;

pub use config::{client_config, server_config};
pub use failure::{CertificateFlaw, HandshakeFailure};
pub use identity::Identity;
pub use peer::PeerTls;
pub use pem::{CredentialError, Pem, PemFiles};
pub use reload::Reloading;
