//! Servers whose addresses are in etcd: `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`.
//!
//! Each key under `PREFIX/` has a server's address as its value: `host:port`, or what gRPC's naming
//! for etcd writes, a JSON object with the address in `Addr`. A channel with such a target reads
//! them and watches for changes. While etcd cannot be reached, the list that was known last
//! stays. A server puts itself there with a [`Registration`].
//!
//! etcd (3.4 or later) is spoken with over gRPC: `etcd://` in the clear, beyond this host by consent
//! only, `etcds://` with TLS. [`EtcdOptions`] has certificates, user and password; `proto/etcd/rpc.proto` is the part
//! of its API that is used, and [`api`] what was made from it.
//!
//! What etcd says is not trusted: a value that is no address is passed over, with a warning.

mod follow;
pub mod api {
    //! The part of etcd's API that is used here.
    pub use super::generated::*;
}
#[rustfmt::skip]
mod generated;
mod options;
mod register;
mod session;
mod source;
mod value;

use petasos::{ChannelBuilder, ConnectError};

pub use follow::EtcdResolver;
pub use options::{EtcdOptions, OptionsError};
pub use register::{RegisterError, Registration};

/// A channel to the servers that are listed at a target, `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, in
/// an etcd of this host without users; [`EtcdOptions::channel`] reaches others.
///
/// # Errors
/// As [`EtcdOptions::channel`].
pub fn channel(target: &str) -> Result<ChannelBuilder, ConnectError> {
    EtcdOptions::new().channel(target)
}
