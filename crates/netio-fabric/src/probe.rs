//! What this host supports, and why not.

use crate::FabricError;

/// What a host supports.
#[derive(Debug)]
#[non_exhaustive]
pub struct Probe {
    /// The version of libfabric in use, `None` if the program was built without.
    pub library: Option<String>,
    /// The datagram endpoints that can be opened, in libfabric's order of preference, or why they
    /// cannot be listed. It may be empty.
    pub providers: Result<Vec<ProviderProbe>, FabricError>,
}

/// One provider at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderProbe {
    /// The provider's name.
    pub provider: String,
    /// The domain: a NIC's or network interface's name.
    pub domain: String,
    /// The network that it is in.
    pub fabric: String,
    /// The largest datagram payload, in bytes.
    pub datagram_bytes_max: usize,
    /// Bytes in front of each packet that belong to the provider.
    pub prefix_bytes: usize,
    /// Packets to this length can be copied into the work request.
    pub inject_bytes_max: usize,
    /// Whether packets must lie in registered memory.
    pub registered: bool,
    /// Whether this is software over kernel sockets.
    pub software: bool,
}

impl Probe {
    /// Whether an endpoint can be opened somewhere, as far as can be told without trying.
    pub fn usable(&self) -> bool {
        self.providers.as_ref().is_ok_and(|providers| !providers.is_empty())
    }
}

/// Finds out what this host supports. Nothing is opened.
pub fn probe() -> Probe {
    #[cfg(feature = "fabric")]
    return Probe { library: Some(crate::sys::library_version()), providers: crate::sys::list() };
    #[cfg(not(feature = "fabric"))]
    return Probe { library: None, providers: Err(FabricError::NotBuilt) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(feature = "fabric"))]
    fn without_the_feature_a_probe_says_so() {
        let probe = probe();
        assert!(!probe.usable() && probe.library.is_none());
        assert!(matches!(probe.providers, Err(FabricError::NotBuilt)));
    }

    #[test]
    #[cfg(feature = "fabric")]
    fn a_probe_lists_the_software_providers() {
        let probe = probe();
        assert!(probe.usable());
        assert!(probe.library.is_some_and(|version| version.starts_with(char::is_numeric)));
        let providers = probe.providers.expect("listing needs no privilege");
        let udp = providers.iter().find(|each| each.provider == "udp" && each.domain == "lo");
        let udp = udp.expect("libfabric has it built in");
        assert!(udp.software && udp.datagram_bytes_max >= 1024 && udp.prefix_bytes == 0);
    }
}
