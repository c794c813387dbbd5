//! Servers whose addresses are in etcd, `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, routers of groups of
//! workers, `router+etcd://…`, and configurations that are there ([`Key`]).
//!
//! Each key under `PREFIX/` has a server's address as its value: `host:port`, or what gRPC's naming
//! for etcd writes, a JSON object with the address in `Addr`. A channel with such a target reads
//! them and watches for changes. While etcd cannot be reached, the channel keeps the latest list. A
//! server adds itself to the list with a [`Registration`]. A group's routers do that, too: clients
//! follow their list with [`channel`], workers with [`EtcdOptions::join`].
//!
//! etcd (3.4 or later) is reached over gRPC: with `etcd://` in plaintext, which needs consent
//! beyond this host, with `etcds://` over TLS. [`EtcdOptions`] has certificates, user and password.
//! The part of etcd's API that is used is in `proto/etcd/rpc.proto`, and the code generated from it
//! in [`api`].
//!
//! etcd's contents are not trusted: a value that is not an address is skipped, with a warning, and
//! what is read is bounded.

mod follow;
pub mod api {
    //! The part of etcd's API that is used here.
    pub use super::generated::*;
}
#[rustfmt::skip]
mod generated;
mod key;
mod options;
mod register;
mod session;
mod source;
mod value;

use petasos::{ChannelBuilder, ConnectError};

pub use follow::EtcdResolver;
pub use key::{Follower, Key};
pub use options::{EtcdOptions, OptionsError};
pub use register::{RegisterError, Registration};

/// The schemes of targets whose addresses are listed in etcd.
const SCHEMES: [&str; 4] = ["etcd", "etcds", "router+etcd", "router+etcds"];

/// Whether a target's addresses are listed in etcd: it is one for [`channel`].
pub fn is_target(target: &str) -> bool {
    target.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// A channel to the servers that are listed at a target, `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, or
/// to a group whose routers are, `router+etcd://…`, in an etcd on this host that has no users. For
/// others use [`EtcdOptions::channel`].
///
/// # Errors
/// As [`EtcdOptions::channel`].
pub fn channel(target: &str) -> Result<ChannelBuilder, ConnectError> {
    EtcdOptions::new().channel(target)
}

#[cfg(test)]
mod tests {
    use super::is_target;

    #[test]
    fn targets_in_etcd_are_told_from_others() {
        assert!(is_target("etcd://a:1/x") && is_target("router+etcds://a:1/x"));
        assert!(!is_target("router://a:1") && !is_target("a:1") && !is_target("etcd"));
    }
}
