//! Targets whose addresses are listed in etcd: servers at `etcd://…`, routers of a group at
//! `router+etcd://…`.

use petasos::{ChannelBuilder, ConnectError, Join};
use petasos_etcd::EtcdOptions;
pub use petasos_etcd::is_target as is_listed;

use crate::failure::Failure;
use crate::security::SecurityArgs;

/// A channel to the servers, or the group, of such a target.
///
/// # Errors
/// The target or the environment is wrong.
pub fn channel(target: &str, security: &SecurityArgs) -> Result<ChannelBuilder, Failure> {
    options(security)?.channel(target).map_err(|error| wrong(target, &error))
}

/// Joins the group of such a target.
///
/// # Errors
/// As [`channel`]; also if servers are listed there, and not routers.
pub fn join(target: &str, security: &SecurityArgs) -> Result<Join, Failure> {
    options(security)?.join(target).map_err(|error| wrong(target, &error))
}

/// Consent to plaintext is for etcd, too.
fn options(security: &SecurityArgs) -> Result<EtcdOptions, Failure> {
    let options = EtcdOptions::from_env().map_err(|error| {
        Failure::with_advice(error, "check what is in the environment as ETCDCTL_…")
    })?;
    Ok(if security.is_plaintext() { options.plaintext() } else { options })
}

fn wrong(target: &str, error: &ConnectError) -> Failure {
    match error {
        ConnectError::NoTls => Failure::with_advice(
            format!("{target} needs the authority that vouches for etcd"),
            "set ETCDCTL_CACERT to its file",
        ),
        _ => Failure::with_advice(
            format!("`{target}` leads nowhere"),
            "give etcd://HOST:PORT/PREFIX for servers, router+etcd://HOST:PORT/PREFIX for a group",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_targets_are_refused_with_advice() {
        let security = SecurityArgs::default();
        for target in ["etcd://a:1", "router+etcd://a/x", "router+etcd://a:1/"] {
            let failure = channel(target, &security).expect_err(target).to_string();
            assert!(failure.contains(target) && failure.contains("PREFIX"), "{failure}");
        }
        assert!(join("router+etcd://a:1/x", &security).is_ok());
        let servers = join("etcd://a:1/x", &security).expect_err("these are no routers");
        assert!(servers.to_string().contains("router+etcd://"), "{servers}");
    }
}
