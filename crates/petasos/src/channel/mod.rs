//! Channels: ways to servers, for any thread.
//!
//! What a channel is over is an enum, matched once per call. A channel over datagrams lives in a
//! loop, its *home*: this thread's, if it has one, otherwise a loop thread that all such channels
//! of the process share ([`crate::home::thread`]). All that its clones share is here; its servers,
//! sessions and waiting calls are in the loop.

mod builder;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
mod target;

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_base::Time;
use petasos_call::CallerSchema;
use petasos_call::balance::Balance;
use petasos_call::channel::ChannelConfig;
use petasos_call::policy::Throttling;
use petasos_schema::LAYOUT_VERSION;

use crate::caller::Bound;
use crate::home::shared::{Letter, Shared};
use crate::home::thread::LoopThread;
use crate::intercept::{Chain, Interceptor};
use crate::rt::ServiceInfo;
use crate::untyped::is_untyped;
pub use builder::{ChannelBuilder, ConnectError};
pub(crate) use builder::{Defaults, ServiceDefaults, policy_of};
pub use target::TargetError;
pub(crate) use target::{Servers, resolve};
#[cfg(feature = "etcd")]
pub(crate) use target::{hosts, of_one_family};

/// A way to servers, from any thread. Clones are the same channel; when the last one and what was
/// bound to it are gone, its sessions end with its last call.
#[derive(Clone)]
pub struct Channel {
    pub(crate) transport: Transport,
    pub(crate) chain: Chain,
}

/// What a channel is over.
#[derive(Clone)]
pub(crate) enum Transport {
    /// Datagrams and shared memory, by way of a loop.
    Datagrams(Arc<ChannelShared>),
    /// HTTP/2.
    #[cfg(feature = "grpc")]
    Grpc(grpc::GrpcChannel),
}

/// What all clones of a channel over datagrams share, on any thread.
pub(crate) struct ChannelShared {
    pub(crate) home: Arc<Shared>,
    /// The channel's number in its loop.
    pub(crate) channel: u32,
    pub(crate) info: Arc<ChannelInfo>,
    /// The thread that turns the loop, if no other does.
    pub(crate) thread: Option<Arc<LoopThread>>,
}

impl Drop for ChannelShared {
    fn drop(&mut self) {
        self.home.post(Letter::Close { channel: self.channel });
    }
}

/// What is known of a channel, to its users and to its loop.
pub(crate) struct ChannelInfo {
    pub(crate) servers: Servers,
    pub(crate) config: ChannelConfig,
    /// Whether the balancer learns from every response.
    pub(crate) wants_reports: bool,
    pub(crate) defaults: Option<Defaults>,
    /// What is called through it; a service's place in the channel is its index here.
    services: Mutex<Vec<Known>>,
    /// Who keeps its servers up to date, once somebody does.
    #[cfg(feature = "etcd")]
    follower: Mutex<Option<crate::etcd::Follower>>,
}

/// A service that is called through a channel.
struct Known {
    info: &'static ServiceInfo,
    defaults: Option<Arc<ServiceDefaults>>,
}

impl ChannelInfo {
    pub(crate) fn new(
        servers: Servers,
        balance: Balance,
        defaults: Option<Defaults>,
    ) -> Arc<ChannelInfo> {
        let resolves = servers.addresses().is_none();
        let config = ChannelConfig { balance, resolves, ..ChannelConfig::default() };
        let wants_reports = balance == Balance::Prequal;
        let services = Mutex::default();
        Arc::new(ChannelInfo {
            servers,
            config,
            wants_reports,
            defaults,
            services,
            #[cfg(feature = "etcd")]
            follower: Mutex::default(),
        })
    }

    /// Who keeps its servers up to date.
    #[cfg(feature = "etcd")]
    pub(crate) fn follower(&self) -> MutexGuard<'_, Option<crate::etcd::Follower>> {
        self.follower.lock().expect("nothing panics under the lock")
    }

    fn services(&self) -> MutexGuard<'_, Vec<Known>> {
        self.services.lock().expect("nothing panics under the lock")
    }

    /// The service at a place.
    pub(crate) fn service(&self, service: u32) -> &'static ServiceInfo {
        self.services()[service as usize].info
    }

    /// What applies to the methods of the service at a place.
    pub(crate) fn service_defaults(&self, service: u32) -> Option<Arc<ServiceDefaults>> {
        self.services()[service as usize].defaults.clone()
    }

    /// When calls are not tried again.
    pub(crate) fn throttling(&self) -> Option<Throttling> {
        self.defaults.as_ref().and_then(Defaults::throttling)
    }

    /// The first service that was bound, if one was.
    pub(crate) fn first_service(&self) -> Option<&'static ServiceInfo> {
        self.services().first().map(|known| known.info)
    }

    /// The place of a service, and what applies to its methods.
    fn place(&self, service: &'static ServiceInfo) -> (u32, Option<Arc<ServiceDefaults>>) {
        let mut services = self.services();
        let known = services.iter().position(|known| core::ptr::eq(known.info, service));
        let at = known.unwrap_or_else(|| {
            let defaults = self.defaults.as_ref().map(|defaults| defaults.of(service));
            services.push(Known { info: service, defaults });
            services.len() - 1
        });
        (at as u32, services[at].defaults.clone())
    }
}

impl fmt::Debug for ChannelInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelInfo").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Channel {
    /// A channel whose entry in its loop exists, or will before the first call does.
    pub(crate) fn over_datagrams(
        home: Arc<Shared>,
        channel: u32,
        info: Arc<ChannelInfo>,
        thread: Option<Arc<LoopThread>>,
    ) -> Channel {
        let shared = ChannelShared { home, channel, info, thread };
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
    pub fn bind(&self, service: &'static ServiceInfo) -> Bound {
        match &self.transport {
            Transport::Datagrams(shared) => {
                let (place, defaults) = shared.info.place(service);
                let around = self.chain.around(service);
                Bound::new(self.clone(), place, defaults, around)
            }
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => {
                let defaults = channel.defaults().map(|defaults| defaults.of(service));
                let around = self.chain.around_grpc(service);
                Bound::over_grpc(self.clone(), service, defaults, around)
            }
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Channel");
        match &self.transport {
            Transport::Datagrams(shared) => debug.field("servers", &shared.info.servers),
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => debug.field("servers", &channel.targets()),
        };
        debug.finish_non_exhaustive()
    }
}

/// What a caller tells of a service when it binds it (R2).
pub(crate) fn schema_of(info: &ServiceInfo) -> CallerSchema {
    let methods = info.methods.len() as u16;
    let layout = if is_untyped(info) { 0 } else { LAYOUT_VERSION as u16 };
    CallerSchema { layout, hash: info.hash, methods }
}

/// The earlier of a deadline and the end of a timeout.
pub(crate) fn sooner(deadline: Time, now: Time, timeout: Option<core::time::Duration>) -> Time {
    timeout.map_or(deadline, |timeout| deadline.min(now + timeout))
}
