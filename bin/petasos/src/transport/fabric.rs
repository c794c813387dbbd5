//! `--transport fabric`, and its options.

use std::net::SocketAddr;

use clap::Args;
use petasos_endpoint::Backend;

use crate::failure::Failure;

/// The options of libfabric.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricArgs {
    /// With `fabric`: the provider [default: libfabric's first choice for the address].
    #[arg(long, value_name = "NAME", global = true)]
    pub provider: Option<String>,
    /// With `fabric`: the domain, a NIC's name [default: the one that has the address].
    #[arg(long, value_name = "NAME", global = true)]
    pub domain: Option<String>,
}

impl FabricArgs {
    /// The name of the first option that was given, if any.
    pub fn given(&self) -> Option<&'static str> {
        let provider = self.provider.as_ref().map(|_| "--provider");
        provider.or(self.domain.as_ref().map(|_| "--domain"))
    }

    /// The same options as command-line words, for another process of this program.
    pub fn words(&self) -> Vec<String> {
        let options = [("--provider", &self.provider), ("--domain", &self.domain)];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        given.flat_map(|(name, value)| [name.to_owned(), value.clone()]).collect()
    }

    /// Opens an endpoint at `address`.
    ///
    /// # Errors
    /// If libfabric is not available. The error contains advice.
    #[cfg(feature = "fabric")]
    pub fn open(&self, address: SocketAddr) -> Result<Backend, Failure> {
        use petasos_netio_fabric::{FabricConfig, FabricIo};

        let (provider, domain) = (self.provider.clone(), self.domain.clone());
        let config = FabricConfig { provider, domain, ..FabricConfig::default() };
        match FabricIo::bind(address, &config) {
            Ok(io) => Ok(io.into()),
            Err(error) => Err(Failure::of_transport("libfabric", &error)),
        }
    }

    /// The function for programs without libfabric.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "fabric"))]
    pub fn open(&self, _: SocketAddr) -> Result<Backend, Failure> {
        Err(Failure::of_missing_feature("fabric", "libfabric-dev"))
    }
}
