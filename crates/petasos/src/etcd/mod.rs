//! Servers whose addresses are in etcd: `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`.
//!
//! Each key under `PREFIX/` has a server's address as its value: `host:port`, or what gRPC's naming
//! for etcd writes, a JSON object with the address in `Addr`. A channel with such a target reads
//! them and watches for changes. While etcd cannot be reached, the list that was known last
//! stays. A server puts itself there with a [`Registration`].
//!
//! etcd (3.4 or later) is spoken with over gRPC, in the clear; `proto/etcd/rpc.proto` is the part
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
mod register;
mod value;

use core::time::Duration;

use petasos_call::Status;

use crate::channel::{Channel, ConnectError};
use crate::grpc::{ClientConfig, Keepalive};
pub(crate) use follow::{Follower, resolve};
pub use register::{RegisterError, Registration};

/// Time for a question to etcd.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where addresses are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// etcd's own servers, `host:port` each, with commas between.
    hosts: String,
    /// Of the keys; ends in `/`.
    prefix: String,
}

impl Source {
    /// What is behind `etcd://` in a target; none if it cannot be.
    pub(crate) fn parse(text: &str) -> Option<Source> {
        let (hosts, path) = text.split_once('/')?;
        let path = path.trim_end_matches('/');
        crate::channel::hosts(hosts)?;
        (!path.is_empty()).then(|| Source { hosts: hosts.to_owned(), prefix: format!("{path}/") })
    }

    /// A channel to etcd, in the context of a Tokio runtime. There is no TLS for it yet, so who
    /// names an etcd consents to plaintext.
    fn connect(&self) -> Result<Channel, ConnectError> {
        let (interval, timeout) = (Duration::from_secs(10), Duration::from_secs(5));
        let mut config = ClientConfig::default();
        config.plaintext = true;
        config.keepalive = Some(Keepalive { interval, timeout, without_calls: false });
        Channel::builder(&format!("grpc://{}", self.hosts)).grpc(config).connect_lazily()
    }

    /// The first key that is not under the prefix.
    fn range_end(&self) -> Vec<u8> {
        let mut end = self.prefix.clone().into_bytes();
        let last = end.last_mut().expect("a prefix ends in `/`");
        *last += 1;
        end
    }
}

/// The wait after a failure, from the one before.
fn longer(wait: Duration) -> Duration {
    (wait * 2).min(Duration::from_secs(30))
}

fn over(what: &str) -> Status {
    Status::unavailable(format!("etcd: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_hosts_and_a_prefix() {
        let source = Source::parse("a:1,[::1]:2/x/y/").expect("it is one");
        assert_eq!((&*source.hosts, &*source.prefix), ("a:1,[::1]:2", "x/y/"));
        assert_eq!(source.range_end(), b"x/y0");
        for text in ["a:1", "a:1/", "/x", "a/x", "a:0/x", ""] {
            assert_eq!(Source::parse(text), None, "{text}");
        }
    }
}
