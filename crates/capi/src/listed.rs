//! Targets whose addresses are listed in etcd.

use petasos::{ChannelBuilder, ConnectError, Join, Status};
use petasos_etcd::EtcdOptions;

pub(crate) use petasos_etcd::is_target;

/// A channel to the servers, or the group, of such a target.
///
/// # Errors
/// The target or the environment is wrong: the program's or the operator's fault.
pub(crate) fn channel(target: &str, plaintext: bool) -> Result<ChannelBuilder, Status> {
    options(plaintext)?.channel(target).map_err(|error| wrong(target, &error))
}

/// Joins the group of such a target.
///
/// # Errors
/// As [`channel`]; also if servers are listed there, and not routers.
pub(crate) fn join(target: &str, plaintext: bool) -> Result<Join, Status> {
    options(plaintext)?.join(target).map_err(|error| wrong(target, &error))
}

/// Consent to plaintext is for etcd, too.
fn options(plaintext: bool) -> Result<EtcdOptions, Status> {
    let options = EtcdOptions::from_env();
    let options = options.map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(if plaintext { options.plaintext() } else { options })
}

fn wrong(target: &str, error: &ConnectError) -> Status {
    Status::invalid_argument(match error {
        ConnectError::NoTls => format!("{target} needs ETCDCTL_CACERT, etcd's authorities"),
        error => format!("{target}: {error}"),
    })
}
