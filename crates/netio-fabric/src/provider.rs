//! What is known about a provider before anything is opened.

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
    /// Bytes before each packet that the provider uses.
    pub prefix_bytes: usize,
    /// Packets of up to this length can be copied into the work request.
    pub inject_bytes_max: usize,
    /// Whether packets must lie in registered memory.
    pub registered: bool,
    /// Whether this is software over kernel sockets.
    pub software: bool,
}
