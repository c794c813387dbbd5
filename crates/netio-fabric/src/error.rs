//! Why the backend could not be opened, and what to do about it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use petasos_netio::SetupError;

/// Why a `FabricIo` could not be opened. Nothing is left behind, so a retry is safe; but without
/// the change that the message advises, it fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The program was built without this backend.
    #[error("this program was built without libfabric: build it with the cargo feature `fabric`")]
    NotBuilt,
    /// Another endpoint or socket has the port. Choose another port.
    #[error("{0} is already in use")]
    AddressInUse(SocketAddr),
    /// The caller's address is not one of this host's.
    #[error("{0} is not an address of this host")]
    AddressNotLocal(SocketAddr),
    /// The caller's address cannot belong to one NIC.
    #[error("{0} belongs to no single interface: name the address of the one to use")]
    AddressUnspecific(IpAddr),
    /// No provider on this host offers datagrams with the requested properties.
    #[error(
        "no libfabric provider{}{} has datagram endpoints at {address}: `fi_info -t FI_EP_DGRAM` \
         lists those that are installed and have a device",
        named("called", .provider),
        named("with a domain", .domain)
    )]
    ProviderMissing {
        /// The address asked for.
        address: SocketAddr,
        /// The provider asked for, if one was.
        provider: Option<String>,
        /// The domain asked for, if one was.
        domain: Option<String>,
    },
    /// The memory for packets could not be pinned, because the limit of locked memory is too low.
    #[error("cannot register {bytes} bytes of packet memory ({error}): raise `ulimit -l`")]
    Registration {
        /// Its size in bytes.
        bytes: usize,
        /// The provider's error.
        error: io::Error,
    },
    /// The caller's configuration contradicts itself.
    #[error("not a possible configuration: {0}")]
    Config(&'static str),
    /// The provider or the operating system refused for another reason.
    #[error("cannot {attempt}: {error}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// The error of the provider or the system.
        error: io::Error,
    },
}

impl From<FabricError> for SetupError {
    fn from(error: FabricError) -> SetupError {
        match error {
            FabricError::AddressInUse(address) => SetupError::AddressInUse(address),
            FabricError::AddressNotLocal(address) => SetupError::AddressNotLocal(address),
            FabricError::System { attempt, error } => SetupError::System { attempt, error },
            other => {
                SetupError::System { attempt: "open a fabric", error: io::Error::other(other) }
            }
        }
    }
}

fn named(what: &str, name: &Option<String>) -> String {
    name.as_ref().map_or(String::new(), |name| format!(" {what} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let address = SocketAddr::from(([10, 0, 0, 1], 7));
        let missing = |provider| FabricError::ProviderMissing { address, provider, domain: None };
        let text = missing(Some("verbs".to_owned())).to_string();
        assert!(text.starts_with("no libfabric provider called verbs has datagram"), "{text}");
        assert!(missing(None).to_string().starts_with("no libfabric provider has datagram"));
        let text = SetupError::from(FabricError::NotBuilt).to_string();
        assert!(text.contains("cargo feature `fabric`"), "{text}");
    }
}
