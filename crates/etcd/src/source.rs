//! Where in etcd addresses are listed, and how etcd is reached.

use core::time::Duration;

use petasos::grpc::{ClientConfig, Keepalive};
use petasos::{Channel, ConnectError, Status, TargetError};

use super::options::EtcdOptions;

/// What is before the scheme if the addresses are of a group's routers.
const GROUP: &str = "router+";
/// The timeout of a call to etcd.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Where in etcd addresses are listed.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// etcd's own servers, each `host:port`, separated by commas.
    pub(crate) hosts: String,
    /// The prefix of the keys; ends in `/`.
    pub(crate) prefix: String,
    /// Whether these are the addresses of a group's routers, and not of servers.
    pub(crate) is_group: bool,
    /// Whether etcd must be reached with TLS.
    is_secure: bool,
    pub(crate) options: EtcdOptions,
}

impl Source {
    /// Parses what follows `etcd://` in a target; `None` if it is invalid.
    fn parse(
        text: &str,
        (is_group, is_secure): (bool, bool),
        options: &EtcdOptions,
    ) -> Option<Source> {
        let (hosts, path) = text.split_once('/')?;
        let path = path.trim_end_matches('/');
        petasos::hosts(hosts)?;
        let (hosts, prefix) = (hosts.to_owned(), format!("{path}/"));
        let source = Source { hosts, prefix, is_group, is_secure, options: options.clone() };
        (!path.is_empty()).then_some(source)
    }

    /// Parses a target, `etcd://…` or `etcds://…`, with [`GROUP`] before it for routers.
    pub(crate) fn of_target(target: &str, options: &EtcdOptions) -> Result<Source, ConnectError> {
        let form = || TargetError::Form(target.to_owned());
        let (scheme, text) = target.split_once("://").ok_or_else(form)?;
        let of_group = scheme.strip_prefix(GROUP);
        let is_secure = match of_group.unwrap_or(scheme) {
            "etcd" => false,
            "etcds" if options.tls.is_some() => true,
            "etcds" => return Err(ConnectError::NoTls),
            _ => return Err(TargetError::Scheme(scheme.to_owned()).into()),
        };
        let what = (of_group.is_some(), is_secure);
        Ok(Source::parse(text, what, options).ok_or_else(form)?)
    }

    /// A channel to etcd. Needs the context of a Tokio runtime.
    pub(crate) fn connect(&self) -> Result<Channel, ConnectError> {
        let (interval, timeout) = (Duration::from_secs(10), Duration::from_secs(5));
        let mut config = ClientConfig::default();
        config.plaintext = self.options.plaintext;
        config.keepalive = Some(Keepalive { interval, timeout, without_calls: false });
        let scheme = if self.is_secure { "grpcs" } else { "grpc" };
        config.tls = self.options.tls.clone().filter(|_| self.is_secure);
        Channel::builder(&format!("{scheme}://{}", self.hosts)).grpc(config).connect_lazily()
    }

    /// The first key after all keys with the prefix.
    pub(crate) fn range_end(&self) -> Vec<u8> {
        let mut end = self.prefix.clone().into_bytes();
        let last = end.last_mut().expect("a prefix ends in `/`");
        *last += 1;
        end
    }
}

/// The wait after another failure.
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
        let of = |target: &str| Source::of_target(target, &EtcdOptions::new());
        let source = of("etcd://a:1,[::1]:2/x/y/").expect("it is one");
        assert_eq!((&*source.hosts, &*source.prefix), ("a:1,[::1]:2", "x/y/"));
        assert_eq!(source.range_end(), b"x/y0");
        for text in ["a:1", "a:1/", "/x", "a/x", "a:0/x", ""] {
            let error = of(&format!("etcd://{text}")).expect_err(text);
            assert!(matches!(error, ConnectError::Target(TargetError::Form(_))), "{text}");
        }
        let scheme = of("http://a:1/x").expect_err("etcd speaks gRPC");
        assert!(matches!(scheme, ConnectError::Target(TargetError::Scheme(_))));
        assert!(matches!(of("etcds://a:1/x"), Err(ConnectError::NoTls)));
        let group = of("router+etcd://a:1/x").expect("it is one");
        assert!(group.is_group && !source.is_group && group.prefix == "x/");
        assert!(matches!(of("router+etcds://a:1/x"), Err(ConnectError::NoTls)));
        for text in ["router+http://a:1/x", "router+://a:1/x", "router+router+etcd://a:1/x"] {
            let scheme = of(text).expect_err(text);
            assert!(matches!(scheme, ConnectError::Target(TargetError::Scheme(_))), "{text}");
        }
    }
}
