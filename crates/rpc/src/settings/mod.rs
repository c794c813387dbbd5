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

use crate::descriptors::ServiceRef;
use crate::dynamic::layout_of;
pub use defaults::{
    CallSettings, Defaults, PolicyOf, RetryMode, ServiceDefaults, policy_of, stream_policy_of,
};
pub use resolver::{FoundServers, Resolver};
pub use target::TargetError;
#[cfg(feature = "grpc")]
pub use target::hosts;
pub use target::{Carried, ROUTERS_MAX, Routers, Servers};

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
    /// here, and is not given again.
    services: Mutex<Vec<Known>>,
}

/// A service that is called through a channel.
#[derive(Default)]
struct Known {
    /// `None` once the channel has let go of it.
    service: Option<ServiceRef>,
    /// How often it was placed, less how often it was let go of.
    uses: u64,
    defaults: Option<Arc<ServiceDefaults>>,
}

impl ChannelInfo {
    /// A channel that has not called any service yet.
    pub fn new(servers: Servers, balance: Balance, defaults: Option<Defaults>) -> Arc<ChannelInfo> {
        let (resolves, is_group) = (servers.addresses().is_none(), servers.is_group());
        let mut config = ChannelConfig { balance, resolves, ..ChannelConfig::default() };
        if is_group {
            // An attachment has room for all calls that its router lets.
            config.sessions_max = 1;
        }
        // Whether calls of a group may run more than once is in their defaults.
        let defaults = defaults.or_else(|| is_group.then(Defaults::default));
        let wants_reports = balance == Balance::Prequal;
        let services = Mutex::default();
        Arc::new(ChannelInfo { servers, config, wants_reports, defaults, services })
    }

    fn services(&self) -> MutexGuard<'_, Vec<Known>> {
        self.services.lock().expect("nothing panics under the lock")
    }

    /// The service with this number, unless the channel has let go of it.
    pub fn service(&self, service: u32) -> Option<ServiceRef> {
        self.services()[service as usize].service.clone()
    }

    /// The defaults of the methods of the service with this number. None if the channel has let go
    /// of it.
    pub fn service_defaults(&self, service: u32) -> Option<Arc<ServiceDefaults>> {
        self.services()[service as usize].defaults.clone()
    }

    /// How retries are throttled, if they are.
    pub fn throttling(&self) -> Option<Throttling> {
        self.defaults.as_ref().and_then(Defaults::throttling)
    }

    /// The first service that was bound and is still there, if there is one.
    pub fn first_service(&self) -> Option<ServiceRef> {
        self.services().iter().find_map(|known| known.service.clone())
    }

    /// The number of a service, and the defaults of its methods.
    pub fn place(&self, service: &ServiceRef) -> (u32, Option<Arc<ServiceDefaults>>) {
        let mut services = self.services();
        let known = services.iter().position(|known| known.is(service));
        let at = known.unwrap_or_else(|| {
            let defaults = self.defaults.as_ref().map(|defaults| defaults.of(service));
            services.push(Known { service: Some(service.clone()), uses: 0, defaults });
            services.len() - 1
        });
        services[at].uses += 1;
        (at as u32, services[at].defaults.clone())
    }

    /// Undoes a [`place`](ChannelInfo::place), if the service is there. With the last, the channel
    /// lets go of it: sessions that have bound it still call it by its number, and in others, calls
    /// of that number fail. A few words of it stay. Placed again, it gets another number.
    pub fn let_go(&self, service: &ServiceRef) {
        let mut services = self.services();
        let known = services.iter_mut().find(|known| known.is(service));
        let known = known.and_then(|known| {
            known.uses -= 1;
            (known.uses == 0).then(|| core::mem::take(known))
        });
        drop(services);
        // Without the lock: it may be the last reference.
        drop(known);
    }
}

impl Known {
    fn is(&self, service: &ServiceRef) -> bool {
        self.service.as_ref().is_some_and(|known| known.is_same(service))
    }
}

impl fmt::Debug for ChannelInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelInfo").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// What a caller sends about a service when it binds it (R2).
pub fn schema_of(service: &ServiceRef) -> CallerSchema {
    let methods = service.methods().len() as u16;
    CallerSchema { layout: layout_of(service), hash: service.hash(), methods }
}
