//! Building channels.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;

use petasos_call::balance::Balance;
use petasos_call::policy::{ConfigError, Policies};
use petasos_call::{Codec, Metadata, MetadataError, Status};
use petasos_rpc::intercept::{Chain, Interceptor};
#[cfg(feature = "grpc")]
use petasos_rpc::settings::{Carried, hosts};
use petasos_rpc::settings::{ChannelInfo, Defaults, Resolver, Routers, Servers, TargetError};
use petasos_runtime::local;
use petasos_runtime::remote::{KeepAlive, RemoteCompletion};
use petasos_runtime::shared::Command;
use petasos_runtime::thread::LoopThread;
use petasos_runtime::{ChannelShared, LoopError, Security, ServiceChoice};

use super::Channel;
#[cfg(feature = "grpc")]
use crate::grpc_channel::UNIX_TARGET;
use crate::transport::Transport;

/// The default timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// What is before the path of a Unix socket in a program's target.
#[cfg(feature = "grpc")]
const UNIX_SCHEME: &str = "grpc+unix://";

/// Why a channel could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The target is invalid. The program's fault.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The metadata for all calls are invalid. The program's fault.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The service config is invalid. Its author's fault.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The loop for the channel could not be started.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// The target is `grpcs://`, but [`ChannelBuilder::grpc`] configures no TLS. The program's
    /// fault.
    #[cfg(feature = "grpc")]
    #[error("grpcs:// needs TLS in the configuration of gRPC")]
    NoTls,
    /// The system could not start a thread for gRPC connections.
    #[cfg(feature = "grpc")]
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// No server could be reached in time. A later attempt may succeed.
    #[error("{0}")]
    Unreachable(Status),
}

/// Builds a [`Channel`].
#[derive(Debug)]
#[must_use = "a builder makes nothing before it connects"]
pub struct ChannelBuilder {
    target: String,
    /// Finds the servers, or a group's routers, instead of the target.
    resolver: Option<Box<dyn Resolver>>,
    /// Whether it finds routers.
    is_group: bool,
    balance: Option<Balance>,
    connect_timeout: Duration,
    timeout: Option<Duration>,
    wait_for_ready: bool,
    metadata: Metadata,
    codec: Codec,
    security: Security,
    service: ServiceChoice,
    policies: Option<Policies>,
    chain: Chain,
    #[cfg(feature = "grpc")]
    grpc: petasos_grpc::ClientConfig,
    /// The first error that a setter found.
    error: Option<ConnectError>,
}

impl Channel {
    /// Connects a channel to `petasos://HOST:PORT[,HOST:PORT…]`, `grpc://…`, `grpcs://…`, or
    /// `grpc+unix:///PATH`, a Unix socket. The channel runs in this thread's loop, if there is one.
    /// Otherwise it runs in a loop thread that all such channels share.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(target: &str) -> Result<Channel, ConnectError> {
        Channel::builder(target).connect().await
    }

    /// A builder for a channel to a target.
    pub fn builder(target: &str) -> ChannelBuilder {
        ChannelBuilder {
            target: target.to_owned(),
            resolver: None,
            is_group: false,
            balance: None,
            connect_timeout: CONNECT_TIMEOUT,
            timeout: None,
            wait_for_ready: false,
            metadata: Metadata::new(),
            codec: Codec::IDENTITY,
            security: Security::default(),
            service: ServiceChoice::default(),
            policies: None,
            chain: Chain::default(),
            #[cfg(feature = "grpc")]
            grpc: petasos_grpc::ClientConfig::default(),
            error: None,
        }
    }
}

impl ChannelBuilder {
    /// Uses `resolver` to find the servers, which are called over datagrams. The target is then
    /// only a name for them.
    pub fn resolver(mut self, resolver: impl Resolver) -> ChannelBuilder {
        self.resolver = Some(Box::new(resolver));
        self.is_group = false;
        self
    }

    /// Uses `resolver` to find the routers of a group of workers, at most 8, as a channel to
    /// `router://…` has them. The target is then only a name for the group. While the resolver
    /// finds none, the channel stays with those that it has.
    pub fn router_resolver(mut self, resolver: impl Resolver) -> ChannelBuilder {
        self.resolver = Some(Box::new(resolver));
        self.is_group = true;
        self
    }

    /// Sets how calls are balanced over the servers. The default is what the service config says;
    /// without one, the first reachable server gets all calls.
    pub fn balance(mut self, balance: Balance) -> ChannelBuilder {
        self.balance = Some(balance);
        self
    }

    /// Sets the timeout of each call. A shorter timeout in a request takes precedence, and so does
    /// the remaining time of the call whose handler makes the call (R10).
    pub fn timeout(mut self, timeout: Duration) -> ChannelBuilder {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the timeout of [`ChannelBuilder::connect`]; the default is 20 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> ChannelBuilder {
        self.connect_timeout = timeout;
        self
    }

    /// While no server is reachable, lets calls wait until their deadlines. By default they fail
    /// with `UNAVAILABLE` after an attempt to connect has failed, until one succeeds.
    pub fn wait_for_ready(mut self, wait: bool) -> ChannelBuilder {
        self.wait_for_ready = wait;
        self
    }

    /// Adds an entry to the metadata of each call. If the entry is invalid, connecting fails.
    pub fn metadata(mut self, key: &str, value: &str) -> ChannelBuilder {
        if let Err(error) = self.metadata.append(key, value) {
            self.error.get_or_insert(error.into());
        }
        self
    }

    /// Sets how servers are secured over datagrams. By default only servers on loopback can be
    /// called. In a [`Loop`](crate::Loop), the loop's own setting applies instead. For `grpc://`,
    /// [`Security::Plaintext`] allows servers beyond loopback, and the other two values have no
    /// effect.
    pub fn security(mut self, security: Security) -> ChannelBuilder {
        self.security = security;
        self
    }

    /// Sets whether calls to `petasos://`, `grpc://` and `grpcs://` targets go through the managed
    /// service of this host. The default is what the environment says
    /// (`PETASOS_SERVICE=unix:PATH`). In a [`Loop`](crate::Loop), the loop's own setting applies
    /// instead. The service makes the connections then: how they are secured is its concern.
    pub fn service(mut self, service: ServiceChoice) -> ChannelBuilder {
        self.service = service;
        self
    }

    /// Over datagrams, compresses requests of at least a kilobyte with [`Codec::GZIP`] or
    /// [`Codec::LZ4`], if the server supports the codec. The server may then compress its
    /// responses.
    pub fn compress(mut self, codec: Codec) -> ChannelBuilder {
        self.codec = codec;
        self
    }

    /// Uses the policies in a gRPC service config (JSON). If it contains an error, connecting
    /// fails.
    pub fn service_config(mut self, json: &str) -> ChannelBuilder {
        match Policies::from_json(json) {
            Ok(policies) => self.policies = Some(policies),
            Err(error) => {
                self.error.get_or_insert(error.into());
            }
        }
        self
    }

    /// Uses these policies for calls.
    pub fn policies(mut self, policies: Policies) -> ChannelBuilder {
        self.policies = Some(policies);
        self
    }

    /// Adds an interceptor, inside those that were added before. It runs once per call, even if the
    /// call is sent several times.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> ChannelBuilder {
        self.chain.push(interceptor);
        self
    }

    /// Sets the configuration of connections to `grpc://` and `grpcs://`. Beyond loopback,
    /// `grpc://` must be allowed explicitly, in this configuration or with
    /// [`ChannelBuilder::security`]. It has no effect on calls through the managed service.
    #[cfg(feature = "grpc")]
    pub fn grpc(mut self, config: petasos_grpc::ClientConfig) -> ChannelBuilder {
        self.grpc = config;
        self
    }

    /// Returns the channel once a server is connected.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(self) -> Result<Channel, ConnectError> {
        let timeout = self.connect_timeout;
        let channel = self.connect_lazily()?;
        #[allow(clippy::infallible_destructuring_match, reason = "not with gRPC")]
        let shared = match &channel.transport {
            Transport::Datagrams(shared) => shared,
            #[cfg(feature = "grpc")]
            Transport::Grpc(grpc) => {
                grpc.connected(timeout).await.map_err(ConnectError::Unreachable)?;
                return Ok(channel);
            }
        };
        let remote = RemoteCompletion::new(None);
        let (number, completion) = (shared.channel, remote.clone());
        shared.runtime.send(Command::Connect { channel: number, timeout, remote: completion });
        let connected = poll_fn(|cx| match remote.poll(cx.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        });
        connected.await.map_err(ConnectError::Unreachable)?;
        Ok(channel)
    }

    /// Returns a channel that connects when the first call needs it.
    ///
    /// # Errors
    /// See [`ConnectError`]. `Unreachable` does not occur: calls report it instead.
    pub fn connect_lazily(mut self) -> Result<Channel, ConnectError> {
        let chain = core::mem::take(&mut self.chain);
        let channel = self.connect_alone()?;
        Ok(Channel { chain, ..channel })
    }

    /// The channel without its interceptors.
    fn connect_alone(mut self) -> Result<Channel, ConnectError> {
        #[cfg(feature = "grpc")]
        if let Some((scheme, list)) = self.target.split_once("://")
            && matches!(scheme, "grpc" | "grpcs")
        {
            if self.is_managed()? {
                let balance = self.chosen_balance();
                let servers = hosts(list).and_then(|hosts| carried(scheme, &hosts, balance));
                let servers = servers.ok_or(TargetError::Form(self.target.clone()))?;
                return self.connect_in_loop(servers);
            }
            let (is_secure, list) = (scheme == "grpcs", list.to_owned());
            return self.connect_grpc(&list, is_secure);
        }
        #[cfg(feature = "grpc")]
        if let Some(path) = self.target.strip_prefix(UNIX_SCHEME) {
            if !path.starts_with('/') {
                return Err(TargetError::Form(self.target).into());
            }
            let target = format!("{UNIX_TARGET}{path}");
            let config = self.grpc.clone();
            return self.connect_grpc_to(vec![target], config);
        }
        let servers = match self.resolver.take() {
            Some(resolver) if self.is_group => Servers::Group(Routers::Resolved(resolver)),
            Some(resolver) => Servers::Resolved(resolver),
            None => Servers::parse(&self.target)?,
        };
        self.connect_in_loop(servers)
    }

    /// Whether calls go through the managed service.
    #[cfg(feature = "grpc")]
    fn is_managed(&self) -> Result<bool, LoopError> {
        match local::current() {
            Some(local) => Ok(local.is_managed()),
            None => Ok(self.service.resolve()?.is_some()),
        }
    }

    /// The channel to these servers, in this thread's loop or one on its own thread.
    fn connect_in_loop(self, servers: Servers) -> Result<Channel, ConnectError> {
        let balance = self.chosen_balance();
        let is_ipv6 = servers.is_ipv6();
        let (security, service) = (self.security.clone(), self.service.clone());
        let info = ChannelInfo::new(servers, balance, self.defaults()?);
        let (runtime, thread) = match local::current() {
            Some(local) => (local.shared.clone(), None),
            None => {
                let thread = match (security, service) {
                    (Security::Loopback, ServiceChoice::Environment) => {
                        LoopThread::shared(is_ipv6)?
                    }
                    (security, service) => LoopThread::own(is_ipv6, security, service)?,
                };
                (thread.runtime().clone(), Some(thread as KeepAlive))
            }
        };
        let channel = runtime.take_channel_number();
        runtime.send(Command::Open { channel, info: info.clone() });
        Ok(Channel::over_datagrams(ChannelShared { runtime, channel, info, thread }))
    }

    #[cfg(feature = "grpc")]
    fn connect_grpc(self, list: &str, is_secure: bool) -> Result<Channel, ConnectError> {
        let targets = hosts(list).ok_or(TargetError::Form(self.target.clone()))?;
        #[cfg_attr(not(feature = "tls"), allow(unused_mut))]
        let mut config = self.grpc.clone();
        #[cfg(feature = "tls")]
        match (is_secure, &config.tls) {
            (true, None) => return Err(ConnectError::NoTls),
            (true, Some(_)) => {}
            (false, _) => config.tls = None,
        }
        #[cfg(not(feature = "tls"))]
        if is_secure {
            return Err(ConnectError::NoTls);
        }
        self.connect_grpc_to(targets, config)
    }

    #[cfg(feature = "grpc")]
    fn connect_grpc_to(
        self,
        targets: Vec<String>,
        mut config: petasos_grpc::ClientConfig,
    ) -> Result<Channel, ConnectError> {
        config.connect_timeout = self.connect_timeout;
        config.plaintext |= matches!(self.security, Security::Plaintext);
        let balance = self.chosen_balance();
        let channel =
            crate::grpc_channel::GrpcChannel::new(targets, config, balance, self.defaults()?);
        let channel = channel.map_err(ConnectError::Thread)?;
        Ok(Channel { transport: Transport::Grpc(channel), chain: Chain::default() })
    }

    fn chosen_balance(&self) -> Balance {
        let asked = self.policies.as_ref().and_then(|policies| policies.balance);
        self.balance.or(asked).unwrap_or_default()
    }

    fn defaults(self) -> Result<Option<Defaults>, ConnectError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let ChannelBuilder { timeout, wait_for_ready, metadata, policies, codec, .. } = self;
        let defaults = Defaults { timeout, wait_for_ready, metadata, policies, codec };
        Ok((!defaults.is_plain()).then_some(defaults))
    }
}

/// Servers that the managed service is to call over gRPC. The service knows which of them it
/// reaches: so if one of them gets all calls, the service chooses it.
#[cfg(feature = "grpc")]
fn carried(scheme: &str, hosts: &[String], balance: Balance) -> Option<Servers> {
    let carried = match balance {
        Balance::PickFirst => Carried::new(vec![format!("{scheme}://{}", hosts.join(","))]),
        _ => None,
    };
    let each = || Carried::new(hosts.iter().map(|host| format!("{scheme}://{host}")).collect());
    carried.or_else(each).map(Servers::Carried)
}
