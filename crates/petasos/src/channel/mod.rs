//! Channels: ways to servers, for any thread.
//!
//! What a channel is over is an enum, matched once per call. A channel over datagrams lives in a
//! loop: this thread's, if it has one, otherwise a loop thread that all such channels of the
//! process share (`petasos_runtime::thread`). All that its clones share is here; its servers,
//! sessions and waiting calls are in the loop.

mod builder;

use core::fmt;
use std::sync::Arc;

use petasos_rpc::descriptors::ServiceInfo;
use petasos_rpc::intercept::{Chain, Interceptor};
use petasos_runtime::ChannelShared;

use crate::caller::ServiceClient;
use crate::transport::Transport;
pub use builder::{ChannelBuilder, ConnectError};

/// A way to servers, from any thread. Clones are the same channel; when the last one and what was
/// bound to it are gone, its sessions end with its last call.
#[derive(Clone)]
pub struct Channel {
    pub(crate) transport: Transport,
    pub(crate) chain: Chain,
}

impl Channel {
    /// A channel whose entry in its loop exists, or will before the first call does.
    pub(crate) fn over_datagrams(shared: ChannelShared) -> Channel {
        Channel { transport: Transport::Datagrams(Arc::new(shared)), chain: Chain::default() }
    }

    /// The same channel, with one more interceptor around the calls that are made through what is
    /// bound to this clone: within those that it has.
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Channel {
        self.chain.push(interceptor);
        self
    }

    /// The service, called over this channel.
    pub fn bind(&self, service: &'static ServiceInfo) -> ServiceClient {
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
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("servers", &self.transport).finish_non_exhaustive()
    }
}
