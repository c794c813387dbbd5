//! How channels are made.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;

use petasos_call::balance::Balance;
use petasos_call::policy::{ConfigError, Policies};
use petasos_call::{Codec, Metadata, MetadataError, Status};
use petasos_rpc::intercept::{Chain, Interceptor};
#[cfg(feature = "grpc")]
use petasos_rpc::settings::hosts;
use petasos_rpc::settings::{ChannelInfo, Defaults, Resolver, Servers, TargetError};
use petasos_runtime::local;
use petasos_runtime::remote::{KeepAlive, RemoteCompletion};
use petasos_runtime::shared::Command;
use petasos_runtime::thread::LoopThread;
use petasos_runtime::{ChannelShared, LoopError, Security};

use super::Channel;
use crate::transport::Transport;

/// Time for connecting unless told otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The target leads nowhere. The program's fault.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Metadata for all calls that may not be. The program's fault.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A service config that cannot be. Its author's fault.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no loop for it.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// `grpcs://` without TLS in [`ChannelBuilder::grpc`]. The program's fault.
    #[cfg(feature = "grpc")]
    #[error("grpcs:// needs TLS in the configuration of gRPC")]
    NoTls,
    /// The system gave no thread for connections over gRPC.
    #[cfg(feature = "grpc")]
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// No server could be reached in time; a later attempt may find one.
    #[error("{0}")]
    Unreachable(Status),
}

/// Makes a [`Channel`].
#[derive(Debug)]
#[must_use = "a builder makes nothing before it connects"]
pub struct ChannelBuilder {
    target: String,
    /// Finds the servers, in place of the target.
    resolver: Option<Box<dyn Resolver>>,
    balance: Option<Balance>,
    connect_timeout: Duration,
    timeout: Option<Duration>,
    wait_for_ready: bool,
    metadata: Metadata,
    codec: Codec,
    security: Security,
    policies: Option<Policies>,
    chain: Chain,
    #[cfg(feature = "grpc")]
    grpc: petasos_grpc::ClientConfig,
    /// The first thing that was wrong.
    error: Option<ConnectError>,
}

impl Channel {
    /// A channel to `petasos://HOST:PORT[,HOST:PORT…]`, or `grpc://` or `grpcs://`, connected. Its
    /// loop is this thread's, if there is one, otherwise a thread that all such channels
    /// share.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(target: &str) -> Result<Channel, ConnectError> {
        Channel::builder(target).connect().await
    }

    /// How to make a channel to a target.
    pub fn builder(target: &str) -> ChannelBuilder {
        ChannelBuilder {
            target: target.to_owned(),
            resolver: None,
            balance: None,
            connect_timeout: CONNECT_TIMEOUT,
            timeout: None,
            wait_for_ready: false,
            metadata: Metadata::new(),
            codec: Codec::IDENTITY,
            security: Security::default(),
            policies: None,
            chain: Chain::default(),
            #[cfg(feature = "grpc")]
            grpc: petasos_grpc::ClientConfig::default(),
            error: None,
        }
    }
}

impl ChannelBuilder {
    /// Has the servers found by `resolver`, over datagrams. The target only names them then.
    pub fn resolver(mut self, resolver: impl Resolver) -> ChannelBuilder {
        self.resolver = Some(Box::new(resolver));
        self
    }

    /// Spreads calls over the servers in this way; otherwise the service config says it, or the
    /// first server that can be reached takes all calls.
    pub fn balance(mut self, balance: Balance) -> ChannelBuilder {
        self.balance = Some(balance);
        self
    }

    /// Lets each call take no longer than this, unless its request or what is left of the call in
    /// whose handler it is made (R10) says less.
    pub fn timeout(mut self, timeout: Duration) -> ChannelBuilder {
        self.timeout = Some(timeout);
        self
    }

    /// Lets [`ChannelBuilder::connect`] take no longer than this; 20 s otherwise.
    pub fn connect_timeout(mut self, timeout: Duration) -> ChannelBuilder {
        self.connect_timeout = timeout;
        self
    }

    /// Has calls wait while no server can be reached, until their deadlines. Otherwise they fail
    /// with `UNAVAILABLE` once an attempt to connect has failed, and until one succeeds.
    pub fn wait_for_ready(mut self, wait: bool) -> ChannelBuilder {
        self.wait_for_ready = wait;
        self
    }

    /// Adds an entry to the metadata of each call. What may not be fails the connect.
    pub fn metadata(mut self, key: &str, value: &str) -> ChannelBuilder {
        if let Err(error) = self.metadata.append(key, value) {
            self.error.get_or_insert(error.into());
        }
        self
    }

    /// How servers over datagrams are spoken with; on loopback only unless told otherwise. In a
    /// [`Loop`](crate::Loop) the loop's own setting counts. For `grpc://`, [`Security::Plaintext`]
    /// is consent to servers beyond loopback, and the other two say nothing.
    pub fn security(mut self, security: Security) -> ChannelBuilder {
        self.security = security;
        self
    }

    /// Compresses requests of at least a kilobyte, and lets servers do so with responses, where
    /// they speak the codec, [`Codec::GZIP`] or [`Codec::LZ4`]: over datagrams.
    pub fn compress(mut self, codec: Codec) -> ChannelBuilder {
        self.codec = codec;
        self
    }

    /// Calls methods as gRPC's service-config JSON says. What is wrong in it fails the connect.
    pub fn service_config(mut self, json: &str) -> ChannelBuilder {
        match Policies::from_json(json) {
            Ok(policies) => self.policies = Some(policies),
            Err(error) => {
                self.error.get_or_insert(error.into());
            }
        }
        self
    }

    /// Calls methods as these policies say.
    pub fn policies(mut self, policies: Policies) -> ChannelBuilder {
        self.policies = Some(policies);
        self
    }

    /// Has calls go through an interceptor, within those that were added before: once per call,
    /// whatever is sent again.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> ChannelBuilder {
        self.chain.push(interceptor);
        self
    }

    /// Settings of connections to `grpc://` and `grpcs://`. Beyond loopback `grpc://` takes
    /// consent, there or with [`ChannelBuilder::security`].
    #[cfg(feature = "grpc")]
    pub fn grpc(mut self, config: petasos_grpc::ClientConfig) -> ChannelBuilder {
        self.grpc = config;
        self
    }

    /// The channel, once a server is connected.
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
        let (number, told) = (shared.channel, remote.clone());
        shared.runtime.send(Command::Connect { channel: number, timeout, remote: told });
        let connected = poll_fn(|cx| match remote.poll(cx.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        });
        connected.await.map_err(ConnectError::Unreachable)?;
        Ok(channel)
    }

    /// The channel, which connects when the first call needs it.
    ///
    /// # Errors
    /// See [`ConnectError`]; not `Unreachable`, which calls tell instead.
    pub fn connect_lazily(mut self) -> Result<Channel, ConnectError> {
        let chain = core::mem::take(&mut self.chain);
        let channel = self.connect_alone()?;
        Ok(Channel { chain, ..channel })
    }

    /// The channel without interceptors.
    fn connect_alone(mut self) -> Result<Channel, ConnectError> {
        #[cfg(feature = "grpc")]
        if let Some((scheme, list)) = self.target.split_once("://")
            && matches!(scheme, "grpc" | "grpcs")
        {
            let (is_secure, list) = (scheme == "grpcs", list.to_owned());
            return self.connect_grpc(&list, is_secure);
        }
        let servers = match self.resolver.take() {
            Some(resolver) => Servers::Resolved(resolver),
            None => Servers::parse(&self.target)?,
        };
        let asked = self.policies.as_ref().and_then(|policies| policies.balance);
        let balance = self.balance.or(asked).unwrap_or_default();
        let is_ipv6 = servers.is_ipv6();
        let security = self.security.clone();
        let info = ChannelInfo::new(servers, balance, self.defaults()?);
        let (runtime, thread) = match local::current() {
            Some(local) => (local.shared.clone(), None),
            None => {
                let thread = match security {
                    Security::Loopback => LoopThread::shared(is_ipv6)?,
                    security => LoopThread::own(is_ipv6, security)?,
                };
                (thread.runtime().clone(), Some(thread as KeepAlive))
            }
        };
        let channel = runtime.take_channel_number();
        runtime.send(Command::Open { channel, info: info.clone() });
        Ok(Channel::over_datagrams(ChannelShared { runtime, channel, info, thread }))
    }

    #[cfg(feature = "grpc")]
    fn connect_grpc(mut self, list: &str, is_secure: bool) -> Result<Channel, ConnectError> {
        let targets = hosts(list).ok_or(TargetError::Form(self.target.clone()))?;
        let mut config = self.grpc.clone();
        config.connect_timeout = self.connect_timeout;
        config.plaintext |= matches!(self.security, Security::Plaintext);
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
        let asked = self.policies.as_ref().and_then(|policies| policies.balance);
        let balance = self.balance.take().or(asked).unwrap_or_default();
        let channel =
            crate::grpc_channel::GrpcChannel::new(targets, config, balance, self.defaults()?);
        let channel = channel.map_err(ConnectError::Thread)?;
        Ok(Channel { transport: Transport::Grpc(channel), chain: Chain::default() })
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
