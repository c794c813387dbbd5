//! Petasos's use of TLS 1.3: certificates from PEM files that are reloaded when they change,
//! allow-lists of peers, and the proved identity of a peer.
//!
//! Trust comes only from the given authorities, never from the system. [`server_config`] and
//! [`client_config`] are for protocols with clients and servers, such as gRPC. [`PeerTls`] is for
//! processes that are both, and requires certificates of both ends (`docs/spec/control.md`, C16 and
//! C18).
//!
//! Boundary rule: provides `rustls` configurations and connections, which convert bytes to bytes;
//! uses no sockets and no runtime.

mod config;
mod failure;
mod holder;
mod identity;
mod listed;
mod peer;
mod pem;
mod reload;

pub use config::{client_config, server_config};
pub use failure::{CertificateFlaw, HandshakeFailure};
pub use holder::Holder;
pub use identity::Identity;
pub use peer::PeerTls;
pub use pem::{CredentialError, Pem, PemFiles};
pub use reload::Reloading;
