//! Settings of channels: their servers, and the defaults of their calls.

mod defaults;
mod resolver;
mod target;

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_call::CallerSchema;
use petasos_call::balance::Balance;
use petasos_call::channel::ChannelConfig;
use petasos_call::policy::Throttling;

use crate::descriptors::ServiceInfo;
use crate::dynamic::layout_of;
pub use defaults::{
    CallSettings, Defaults, PolicyOf, RetryMode, ServiceDefaults, policy_of, stream_policy_of,
};
pub use resolver::{FoundServers, Resolver};
pub use target::TargetError;
#[cfg(feature = "grpc")]
pub use target::hosts;
pub use target::{Carried, Servers};

/// What a channel's users and its loop know about it.
pub struct ChannelInfo {
    /// Its servers.
    pub servers: Servers,
    /// How it connects and balances its load.
    pub config: ChannelConfig,
    /// Whether the balancer wants a report of every response.
    pub wants_reports: bool,
    /// The defaults of its calls, if the program has set any.
    pub defaults: Option<Defaults>,
    /// The services that are called through it. A service's number in the channel is its index
    /// here.
    services: Mutex<Vec<Known>>,
}

/// A service that is called through a channel.
struct Known {
    info: &'static ServiceInfo,
    defaults: Option<Arc<ServiceDefaults>>,
}

impl ChannelInfo {
    /// A channel that has not called any service yet.
    pub fn new(servers: Servers, balance: Balance, defaults: Option<Defaults>) -> Arc<ChannelInfo> {
        let resolves = servers.addresses().is_none();
        let config = ChannelConfig { balance, resolves, ..ChannelConfig::default() };
        let wants_reports = balance == Balance::Prequal;
        let services = Mutex::default();
        Arc::new(ChannelInfo { servers, config, wants_reports, defaults, services })
    }

    fn services(&self) -> MutexGuard<'_, Vec<Known>> {
        self.services.lock().expect("nothing panics under the lock")
    }

    /// The service with this number.
    pub fn service(&self, service: u32) -> &'static ServiceInfo {
        self.services()[service as usize].info
    }

    /// The defaults of the methods of the service with this number.
    pub fn service_defaults(&self, service: u32) -> Option<Arc<ServiceDefaults>> {
        self.services()[service as usize].defaults.clone()
    }

    /// How retries are throttled, if they are.
    pub fn throttling(&self) -> Option<Throttling> {
        self.defaults.as_ref().and_then(Defaults::throttling)
    }

    /// The first service that was bound, if one was.
    pub fn first_service(&self) -> Option<&'static ServiceInfo> {
        self.services().first().map(|known| known.info)
    }

    /// The number of a service, and the defaults of its methods.
    pub fn place(&self, service: &'static ServiceInfo) -> (u32, Option<Arc<ServiceDefaults>>) {
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

/// What a caller sends about a service when it binds it (R2).
pub fn schema_of(info: &ServiceInfo) -> CallerSchema {
    let methods = info.methods.len() as u16;
    CallerSchema { layout: layout_of(info), hash: info.hash, methods }
}
