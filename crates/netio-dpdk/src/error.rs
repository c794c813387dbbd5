//! Why the backend could not be opened, and what to do about it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use petasos_netio::SetupError;

/// Why a `DpdkIo` could not be opened. Nothing is left behind except DPDK's environment. Without
/// the change that the message advises, a retry fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// The program was built without this backend.
    #[error("this program was built without DPDK: build it with the cargo feature `dpdk`")]
    NotBuilt,
    /// The caller's address cannot belong to one port.
    #[error("{0} is no address of one network interface: name the one that the port is to have")]
    AddressUnspecific(IpAddr),
    /// The kernel has this address, too, and another socket or endpoint uses its UDP port. Choose
    /// another port.
    #[error("{0} is already in use")]
    AddressInUse(SocketAddr),
    /// DPDK's environment could not be started. It cannot be started again in this process.
    #[error(
        "DPDK did not start with `{arguments}` ({error}): it needs huge pages or `--no-huge`, and \
         rights to its devices; it says more on the standard error stream"
    )]
    Environment {
        /// Its arguments.
        arguments: String,
        /// DPDK's error.
        error: io::Error,
    },
    /// This process has already started DPDK with other arguments.
    #[error("DPDK runs with `{running}` already: all endpoints of a process need the same")]
    OtherArguments {
        /// The arguments in use.
        running: String,
    },
    /// There is no such port, and it could not be made.
    #[error(
        "there is no DPDK port {device}, and none can be made ({error}): `dpdk-devbind.py -s` \
         lists the devices, and virtual ones may need rights (CAP_NET_RAW); DPDK says more on the \
         standard error stream"
    )]
    DeviceMissing {
        /// Its name or arguments.
        device: String,
        /// DPDK's error.
        error: io::Error,
    },
    /// Another endpoint of this process has the port.
    #[error("DPDK port {0} has an endpoint already")]
    DeviceBusy(String),
    /// There is not enough memory for the frames.
    #[error("no memory for {frames} frames ({error}): more huge pages, or a larger `-m`")]
    Memory {
        /// The number of frames asked for.
        frames: u32,
        /// What DPDK said.
        error: io::Error,
    },
    /// The caller's gateway is of another address family, or is itself unreachable.
    #[error("{0} cannot be the gateway: it is not in the local address's subnet")]
    Gateway(IpAddr),
    /// The caller's configuration contradicts itself.
    #[error("not a possible configuration: {0}")]
    Config(&'static str),
    /// The driver refused for another reason.
    #[error("cannot {attempt}: {error}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// DPDK's error.
        error: io::Error,
    },
}

impl From<DpdkError> for SetupError {
    fn from(error: DpdkError) -> SetupError {
        match error {
            DpdkError::AddressInUse(address) => SetupError::AddressInUse(address),
            DpdkError::System { attempt, error } => SetupError::System { attempt, error },
            other => SetupError::System { attempt: "open DPDK", error: io::Error::other(other) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let text = SetupError::from(DpdkError::NotBuilt).to_string();
        assert!(text.contains("cargo feature `dpdk`"), "{text}");
        let missing =
            DpdkError::DeviceMissing { device: "x".to_owned(), error: io::Error::other("no") };
        assert!(missing.to_string().contains("no DPDK port x, and none can be made (no)"));
    }
}
