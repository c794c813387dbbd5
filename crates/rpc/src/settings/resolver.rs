//! Finding a channel's servers with code of the program.

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Finds the servers of a channel, and reports changes.
///
/// ```
/// use petasos::{Channel, FoundServers, Resolver};
///
/// #[derive(Debug)]
/// struct Fixed(std::net::SocketAddr);
///
/// impl Resolver for Fixed {
///     fn resolve(&self, found: FoundServers) {
///         found.set(Ok(vec![self.0]));
///     }
/// }
///
/// let server = "127.0.0.1:7000".parse()?;
/// let channel = Channel::builder("fixed").resolver(Fixed(server)).connect_lazily()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Resolver: fmt::Debug + Send + Sync + 'static {
    /// Looks for the servers and passes them to `found`, now or later, and again whenever they
    /// change. It must not block. It is called when the channel needs servers for the first time,
    /// and again when the channel wants to know whether the list is still right. A resolver is
    /// dropped with its channel.
    fn resolve(&self, found: FoundServers);

    /// Whether servers may have IPv6 addresses.
    fn is_ipv6(&self) -> bool {
        true
    }
}

/// Passes what a [`Resolver`] has found to the channel that asked. It does not keep the channel
/// alive.
#[derive(Clone)]
pub struct FoundServers(Arc<dyn Fn(io::Result<Vec<SocketAddr>>) + Send + Sync>);

impl FoundServers {
    #[doc(hidden)]
    pub fn new(set: impl Fn(io::Result<Vec<SocketAddr>>) + Send + Sync + 'static) -> FoundServers {
        FoundServers(Arc::new(set))
    }

    /// Sets the channel's servers, or says why they could not be found. After an error the channel
    /// asks again after a while.
    pub fn set(&self, servers: io::Result<Vec<SocketAddr>>) {
        (self.0)(servers);
    }
}

impl fmt::Debug for FoundServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundServers").finish_non_exhaustive()
    }
}
