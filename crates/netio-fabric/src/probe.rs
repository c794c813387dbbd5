//! What this host supports, and why not.

use crate::FabricError;
use crate::provider::ProviderProbe;

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
