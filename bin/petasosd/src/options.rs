//! The options of the command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use petasos::PacketTransport;
use petasos::config::TcpConfig;
use petasos_operator::Account;

use crate::names::parse_name;
use crate::otlp::OtlpConfig;
use crate::plugins::parse_plugin;
use crate::security::SecurityOptions;
use crate::source::Source;
use crate::transport::{ApplicationTransport, Carrier, Peers, TransportConfig};

/// The options of `--transport fabric`.
#[derive(Args, Clone, Debug, Default)]
pub struct FabricOptions {
    /// With `--transport fabric`: the provider [default: libfabric's first choice for the address]
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,

    /// With `--transport fabric`: the domain, a NIC's name [default: the one that has the address]
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,

    /// With `--transport fabric`: the address of the NIC [default: that of --listen]
    #[arg(long, value_name = "IP")]
    pub nic: Option<IpAddr>,
}

impl FabricOptions {
    /// What carries packets.
    #[cfg(feature = "fabric")]
    fn packets(&self) -> Result<PacketTransport, String> {
        use petasos::config::FabricConfig;

        let (provider, domain) = (self.provider.clone(), self.domain.clone());
        let config = FabricConfig { provider, domain, ..FabricConfig::default() };
        Ok(PacketTransport::Fabric(config))
    }

    #[cfg(not(feature = "fabric"))]
    fn packets(&self) -> Result<PacketTransport, String> {
        Err("this program was built without libfabric: build it with `--features fabric`, which \
             needs Debian's libfabric-dev, libclang-dev and pkg-config"
            .to_owned())
    }

    /// The name of the first option that was given.
    fn given(&self) -> Option<&'static str> {
        let provider = self.provider.as_ref().map(|_| "--provider");
        let domain = self.domain.as_ref().map(|_| "--domain");
        provider.or(domain).or(self.nic.map(|_| "--nic"))
    }
}

/// The managed service: policies on the calls of this host's applications.
#[derive(Clone, Debug, Parser)]
#[command(name = "petasosd", version)]
pub struct Options {
    /// Options from a file, TOML with the names of these: `listen = "127.0.0.1:4100"`. It may also
    /// have the policies themselves, and quotas. An option of the command line replaces what the
    /// file says. `petasos ctl reload` and SIGHUP read it again: peers, services that are believed,
    /// names of applications, policies, quotas and plug-ins change while calls run. The same from
    /// etcd: etcd://HOST:PORT/KEY, or etcds:// with TLS, and ETCDCTL_CACERT, ETCDCTL_CERT,
    /// ETCDCTL_KEY and ETCDCTL_USER in the environment. That is followed.
    #[arg(long, value_name = "FILE")]
    pub config: Option<Source>,

    /// Where applications attach.
    #[arg(long, value_name = "PATH", default_value = "/run/petasos/petasosd.sock")]
    pub socket: PathBuf,

    /// Policies: a JSON list of `{"application": NAME or "*", "kind": KIND, "configuration": {…}}`.
    /// Each application gets those for it, in this order, the first next to it. An application
    /// gives itself its name: what all must pass has to be for "*".
    #[arg(long, value_name = "FILE")]
    pub policies: Option<PathBuf>,

    /// A name, and the account whose processes alone may attach under it, as NAME=uid:N or
    /// NAME=gid:N. May be given several times, also for one name. Such a name is proved: policies
    /// know it as the identity of a caller of this host, and other services are told it.
    #[arg(long, value_name = "NAME=WHO", value_parser = parse_name)]
    pub application: Vec<(String, Account)>,

    /// Only applications attach that show the token in this file, at most 64 bytes of text: they
    /// get it in PETASOS_TOKEN. Other users must not be able to read the file.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// The name, by its certificate, of a service of another host that is believed about which
    /// application there calls: policies know that as the identity of its calls. May be given
    /// several times.
    #[arg(long, value_name = "NAME")]
    pub believe: Vec<String>,

    /// Where other hosts call the services that applications of this one serve, over what
    /// --transport says.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,

    /// Where gRPC clients call the services that applications of this host serve, with health
    /// checks and server reflection.
    #[arg(long, value_name = "ADDR")]
    pub listen_grpc: Option<SocketAddr>,

    /// The longest message of a gRPC client, in bytes, from 65536 to 16777216 [default: 4194304]
    #[arg(long, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1 << 16..=16 << 20))]
    pub grpc_message_bytes: Option<u32>,

    /// A name that applications call, and the host that serves it, as NAME=petasos://HOST:PORT or
    /// NAME=grpc://HOST:PORT; with certificates also NAME=grpcs://HOST:PORT. May be given several
    /// times. With this, --listen or --listen-grpc, applications can also call such targets
    /// themselves.
    #[arg(long, value_name = "NAME=TARGET", value_parser = parse_peer)]
    pub peer: Vec<(String, String)>,

    /// What carries calls to and from other hosts, except for gRPC. Both ends of a call must have
    /// the same.
    #[arg(long, value_enum, default_value_t)]
    pub transport: Carrier,

    #[command(flatten)]
    pub fabric: FabricOptions,

    #[command(flatten)]
    pub security: SecurityOptions,

    /// Where operators connect (`petasos ctl`); `admin.sock` beside the other socket if this is not
    /// given. Root and the user of this process are operators.
    #[arg(long, value_name = "PATH")]
    pub admin: Option<PathBuf>,

    /// Who may look besides operators, and change nothing: a user or the group of a process, as
    /// `uid:N` or `gid:N`. May be given several times.
    #[arg(long, value_name = "WHO")]
    pub viewer: Vec<Account>,

    /// Append what operators do, and what others try, to this file: a JSON object per line.
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,

    /// Serve what is counted to Prometheus, at http://ADDR/metrics. Every process of this host can
    /// read that.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,

    /// Allow --metrics at an address beyond this host, where everybody in the network can read.
    #[arg(long)]
    pub metrics_plaintext: bool,

    /// Send the spans that policies of the kind `tracing` record to this OpenTelemetry collector:
    /// grpc://HOST:PORT or, with the certificates of --tls-cert, grpcs://HOST:PORT.
    #[arg(long, value_name = "TARGET")]
    pub otlp: Option<String>,

    /// How often to send spans, in s. A policy keeps so many as its `spans_max` says: what comes
    /// faster is lost.
    #[arg(long, value_name = "S", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub otlp_interval: u32,

    /// Say whether the service could start with these options, and end.
    #[arg(long)]
    pub check: bool,

    /// A kind of policies that is not built in: a shared object (petasos_plugin.h), or, if this was
    /// built with the feature `wasm`, a WebAssembly module (.wasm, .wat). Policies call it NAME.
    /// May be given several times.
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_plugin)]
    pub plugin: Vec<(String, PathBuf)>,

    /// Know the schema in this file from the start: an encoded FileDescriptorSet, or what `petasos
    /// ctl schema show --output` writes. It stays until it is evicted. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub prefetch: Vec<PathBuf>,

    /// Keep the schemas that applications bind in this folder, so that they are known from the
    /// start next time: at most 256 of 8 MiB together. It is made if it is not there, and nobody
    /// else may be able to write it. Several services may share one.
    #[arg(long, value_name = "DIR")]
    pub schema_cache: Option<PathBuf>,

    /// Take over from the process that serves at the same --socket, while its calls run. That one
    /// gives this one its sockets, for which --listen and --listen-grpc have to name the same
    /// addresses, and the policies and quotas in force, and ends when what is under way there has
    /// ended.
    #[arg(long)]
    pub takeover: bool,

    /// When another process takes over from this one, what is under way here has so many seconds to
    /// end.
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub drain_timeout: u64,

    /// How many threads run the datapaths of applications (shared runtimes). An application gets
    /// the one that has the fewest. The first also has the sockets of the service: calls to and
    /// from other hosts pass it.
    #[arg(long, value_name = "N", default_value_t = 1, overrides_with = "runtimes",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub runtimes: u32,

    /// A thread for the applications of this name alone (a dedicated runtime). May be given several
    /// times, also for one name.
    #[arg(long, value_name = "NAME")]
    pub dedicated_runtime: Vec<String>,

    /// The processors that the runtimes run on, one each: the shared ones first, then the dedicated
    /// ones. Those for which there is none run on any.
    #[arg(long, value_name = "CPU,…", value_delimiter = ',')]
    pub cpus: Vec<u32>,

    /// How long to look for work before sleeping at most, in µs. It is less when calls are rare,
    /// or other programs need the processor.
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub spin_us: u64,
}

impl Options {
    pub fn admin_socket(&self) -> PathBuf {
        self.admin.clone().unwrap_or_else(|| self.socket.with_file_name("admin.sock"))
    }

    /// What is under way has so long to end when something takes its place.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_timeout)
    }

    /// Whether calls leave this host or come in.
    pub fn is_open(&self) -> bool {
        self.listen.is_some() || self.listen_grpc.is_some() || !self.peer.is_empty()
    }

    /// How calls leave this host and come in. `applications` have transports of their own.
    ///
    /// # Errors
    /// This program does not have the transport, or an option is for another one.
    pub fn transport(
        &self,
        security: petasos::Security,
        applications: Vec<ApplicationTransport>,
    ) -> Result<TransportConfig, String> {
        let (listen, listen_grpc, peers) = (self.listen, self.listen_grpc, self.peers());
        let fabric = self.fabric()?;
        let grpc_message_bytes = self.grpc_message_bytes.map(|bytes| bytes as usize);
        Ok(TransportConfig {
            listen,
            listen_grpc,
            grpc_message_bytes,
            carrier: self.transport,
            tcp: TcpConfig::default(),
            fabric,
            nic: self.fabric.nic,
            security,
            peers,
            applications,
            drain: self.drain(),
        })
    }

    /// How a fabric carries packets, if one does.
    fn fabric(&self) -> Result<Option<PacketTransport>, String> {
        let is_fabric = self.transport == Carrier::Fabric;
        match self.fabric.given() {
            Some(option) if !is_fabric => Err(format!("{option} is for --transport fabric only")),
            _ => is_fabric.then(|| self.fabric.packets()).transpose(),
        }
    }

    /// Where spans are sent.
    pub fn otlp(&self, security: petasos::Security) -> Option<OtlpConfig> {
        let every = Duration::from_secs(self.otlp_interval.into());
        self.otlp.clone().map(|target| OtlpConfig { target, every, security })
    }

    /// Other hosts that have names.
    pub fn peers(&self) -> Peers {
        Peers { peers: self.peer.clone(), believed: self.believe.clone() }
    }
}

fn parse_peer(text: &str) -> Result<(String, String), String> {
    let (name, target) = text.split_once('=').ok_or("give NAME=petasos://HOST:PORT")?;
    match name.is_empty() || name.contains("://") {
        true => Err("a name is not empty, and no address".to_owned()),
        false => Ok((name.to_owned(), target.to_owned())),
    }
}
