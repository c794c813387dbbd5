//! Errors of session setup, depending on the transport.

use std::net::SocketAddr;

use petasos_endpoint::{ConnectAndWaitError, RefuseCode, SessionError};

use crate::failure::Failure;
use crate::transport::{Transport, TransportArgs};

/// Tries `connect` with each of `servers` until one is reachable, and returns its result.
///
/// # Errors
/// The reason why the last one was not reachable.
pub fn first_that_answers<T>(
    servers: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut last = Failure::new("there is no address to connect to");
    for server in servers {
        match connect(*server) {
            Ok(connected) => return Ok(connected),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

/// The failure for a session to `server` that could not be set up.
pub fn failure(
    server: SocketAddr,
    error: &ConnectAndWaitError,
    transport: &TransportArgs,
) -> Failure {
    match error {
        ConnectAndWaitError::Failed(error) => match unfit(transport.transport, error) {
            Some((what, advice)) => {
                Failure::with_advice(format_args!("cannot connect to {server}: {what}"), advice)
            }
            None => Failure::of_session(server, error),
        },
        ConnectAndWaitError::NotBegun(error) => Failure::with_advice(
            format_args!("cannot connect to {server}: {error}"),
            "check the address and --transport",
        ),
        error => Failure::new(format!("cannot connect to {server}: {error}")),
    }
}

/// An explanation and advice, if the two ends use transports that do not match.
fn unfit(transport: Transport, error: &SessionError) -> Option<(&'static str, &'static str)> {
    let refused = "the server refused the session";
    Some(match (error, transport) {
        (SessionError::NoRoute, Transport::Shm) => (
            "it offers no shared memory to us",
            "both must run on one host, as one user and in the same network, mount and user \
             namespaces, with --transport auto or shm at the server; or use --transport udp here",
        ),
        (SessionError::NoRoute, Transport::Dpdk | Transport::Fabric) => (
            "no packet of ours reaches the address that it names",
            "check the server's --transport, and that both are in one network",
        ),
        (SessionError::RefusedBy(RefuseCode::IncompatibleParameters), Transport::Dpdk) => (
            refused,
            "its packets may not reach us: check --data-address and --gateway, and the server's \
             --transport",
        ),
        (_, Transport::Auto) => return None,
        (SessionError::RefusedBy(RefuseCode::IncompatibleParameters), _) => (
            refused,
            "the two programs' transports or settings do not fit each other: try --transport auto",
        ),
        _ => return None,
    })
}
