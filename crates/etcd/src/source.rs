//! Where addresses are listed, and how etcd is reached.

use core::time::Duration;

use petasos::grpc::{ClientConfig, Keepalive};
use petasos::{Channel, ConnectError, Status, TargetError};

/// Time for a question to etcd.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Where addresses are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// etcd's own servers, `host:port` each, with commas between.
    pub(crate) hosts: String,
    /// Of the keys; ends in `/`.
    pub(crate) prefix: String,
}

impl Source {
    /// What is behind `etcd://` in a target; none if it cannot be.
    pub(crate) fn parse(text: &str) -> Option<Source> {
        let (hosts, path) = text.split_once('/')?;
        let path = path.trim_end_matches('/');
        petasos::hosts(hosts)?;
        (!path.is_empty()).then(|| Source { hosts: hosts.to_owned(), prefix: format!("{path}/") })
    }

    /// What a target, `etcd://…`, stands for.
    pub(crate) fn of_target(target: &str) -> Result<Source, TargetError> {
        let form = || TargetError::Form(target.to_owned());
        match target.split_once("://") {
            Some(("etcd", text)) => Source::parse(text).ok_or_else(form),
            Some((scheme, _)) => Err(TargetError::Scheme(scheme.to_owned())),
            None => Err(form()),
        }
    }

    /// A channel to etcd, in the context of a Tokio runtime. There is no TLS for it yet, so who
    /// names an etcd consents to plaintext.
    pub(crate) fn connect(&self) -> Result<Channel, ConnectError> {
        let (interval, timeout) = (Duration::from_secs(10), Duration::from_secs(5));
        let mut config = ClientConfig::default();
        config.plaintext = true;
        config.keepalive = Some(Keepalive { interval, timeout, without_calls: false });
        Channel::builder(&format!("grpc://{}", self.hosts)).grpc(config).connect_lazily()
    }

    /// The first key that is not under the prefix.
    pub(crate) fn range_end(&self) -> Vec<u8> {
        let mut end = self.prefix.clone().into_bytes();
        let last = end.last_mut().expect("a prefix ends in `/`");
        *last += 1;
        end
    }
}

/// The wait after a failure, from the one before.
pub(crate) fn longer(wait: Duration) -> Duration {
    (wait * 2).min(Duration::from_secs(30))
}

pub(crate) fn over(what: &str) -> Status {
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
