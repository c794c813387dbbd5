//! Channels to servers, usable from any thread.
//!
//! The transport of a channel is an enum that is matched once per call. A channel over datagrams
//! lives in a loop: this thread's, if there is one, otherwise a loop thread that all such channels
//! of the process share (`petasos_runtime::thread`). [`Channel`] contains what its clones share;
//! the servers, sessions and waiting calls are in the loop.

mod builder;

use core::fmt;
use std::sync::Arc;

use petasos_rpc::descriptors::ServiceRef;
use petasos_rpc::intercept::{Chain, Interceptor};
use petasos_runtime::ChannelShared;

use crate::caller::ServiceClient;
use crate::memory::Buffer;
use crate::transport::Transport;
pub use builder::{ChannelBuilder, ConnectError};

/// A channel to one or several servers, usable from any thread. Clones are the same channel. Once
/// all clones and all services bound to them are dropped, its sessions close after the last call.
#[derive(Clone)]
pub struct Channel {
    pub(crate) transport: Transport,
    pub(crate) chain: Chain,
}

impl Channel {
    /// Wraps a channel whose entry in its loop exists, or will exist before its first call.
    pub(crate) fn over_datagrams(shared: ChannelShared) -> Channel {
        Channel { transport: Transport::Datagrams(Arc::new(shared)), chain: Chain::default() }
    }

    /// Returns the same channel with one more interceptor, inside the existing ones. It applies to
    /// calls of services that are bound to this clone.
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Channel {
        self.chain.push(interceptor);
        self
    }

    /// A buffer of so many bytes, their contents unspecified, for a request of this channel. See
    /// [`Buffer`].
    ///
    /// # Panics
    /// If there are 4 GiB or more: no message can have them.
    pub fn buffer(&self, bytes: usize) -> Buffer {
        let shared = match &self.transport {
            Transport::Datagrams(shared) => shared.runtime.buffers(),
            #[cfg(feature = "grpc")]
            Transport::Grpc(_) => None,
        };
        Buffer::new(shared.and_then(|buffers| buffers.allocate(bytes)), bytes)
    }

    /// Binds a service to this channel, which keeps its descriptor until it
    /// [lets go](Channel::let_go) of it.
    pub fn bind(&self, service: impl Into<ServiceRef>) -> ServiceClient {
        self.bound(&service.into())
    }

    fn bound(&self, service: &ServiceRef) -> ServiceClient {
        match &self.transport {
            Transport::Datagrams(shared) => {
                let (place, defaults) = shared.info.place(service);
                let around = self.chain.around(service);
                ServiceClient::new(self.transport.clone(), place, defaults, around)
            }
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => {
                let defaults = channel.defaults().map(|defaults| defaults.of(service));
                let around = self.chain.around_grpc(service);
                ServiceClient::over_grpc(self.transport.clone(), service, defaults, around)
            }
        }
    }

    /// Undoes a [`bind`](Channel::bind) of a service, for which no more calls are begun. If it was
    /// undone as often as it was made, the channel lets go of the service, so that its descriptor
    /// can be freed: for a program that calls ever new services
    /// ([`untyped::Service`](crate::untyped::Service)) through one channel. Until the channel is
    /// dropped, it keeps a few words of each.
    ///
    /// Calls that were sent go on, and so do those in sessions that have bound the service before.
    /// Others end with `FAILED_PRECONDITION`. The service may be bound again.
    pub fn let_go(&self, service: &ServiceRef) {
        match &self.transport {
            Transport::Datagrams(shared) => shared.info.let_go(service),
            // Clients over gRPC have copies of the names.
            #[cfg(feature = "grpc")]
            Transport::Grpc(_) => {}
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("servers", &self.transport).finish_non_exhaustive()
    }
}
