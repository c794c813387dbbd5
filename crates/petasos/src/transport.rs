//! The transports of channels.

use core::fmt;
use std::sync::Arc;

use petasos_rpc::timer::Timekeeper;
use petasos_runtime::ChannelShared;

#[cfg(feature = "grpc")]
use crate::grpc_channel::GrpcChannel;

/// The transport of a channel.
#[derive(Clone)]
pub(crate) enum Transport {
    /// Datagrams and shared memory, through a loop.
    Datagrams(Arc<ChannelShared>),
    /// HTTP/2.
    #[cfg(feature = "grpc")]
    Grpc(GrpcChannel),
}

impl Transport {
    /// The timer that tracks the deadlines of a channel's calls.
    pub(crate) fn timekeeper(&self) -> Arc<dyn Timekeeper> {
        match self {
            Transport::Datagrams(shared) => shared.runtime.clone(),
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => channel.timekeeper(),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Datagrams(shared) => write!(f, "{:?}", shared.info.servers),
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => write!(f, "{:?}", channel.targets()),
        }
    }
}
