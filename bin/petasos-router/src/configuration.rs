//! The configuration: a group by options of the command line, or several by a file.
//!
//! A key of the file is the long name of an option, with `_` for `-`, so that each has one meaning
//! and one check. An option that may be repeated is a list there, with its name in the plural.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use petasos_router::{Config, Policy};
use petasos_router_control::{Active, GroupSettings, PlaneConfig};
use serde::Deserialize;

use crate::security::SecurityOptions;

/// Picks a worker for each request of a group's clients.
#[derive(Debug, Parser)]
#[command(name = "petasos-router", version)]
pub struct Options {
    /// Groups from a file, TOML: a table `[[group]]` for each, whose keys are the names of these
    /// options: `listen = "127.0.0.1:7000"`, `payload_bytes = 1400`
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "listen", "data", "policy", "payload_bytes", "clients_max", "routers", "standby",
            "plaintext", "services", "binds", "tls_cert", "tls_key", "tls_ca", "allow", "workers",
            "primaries", "cipher",
        ]
    )]
    config: Option<PathBuf>,

    /// Only start and end, and say what is wrong
    #[arg(long)]
    pub check: bool,

    /// How long to go on after SIGTERM, so that clients and workers go elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    drain_s: u64,

    #[command(flatten)]
    group: GroupArguments,
}

#[derive(Args, Clone, Debug)]
struct GroupArguments {
    /// Where clients attach and workers join, over TCP [default: 127.0.0.1:7000]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Where requests and feedback come, over UDP [default: any port of --listen's address]
    #[arg(long, value_name = "ADDRESS")]
    data: Option<SocketAddr>,

    /// How a worker is picked: random, rr, pl2, jsq, or jbsqN, with at most N at a worker at a time
    #[arg(long, value_name = "POLICY", default_value = "jbsq3")]
    policy: String,

    /// Bytes of a request or response in a packet, 1024 to 65000: at most what each member's path
    /// carries, less 64, and less 16 with TLS [default: 1400, or 1392 with TLS]
    #[arg(long, value_name = "BYTES")]
    payload_bytes: Option<u32>,

    /// The most clients; one peer may have half of them
    #[arg(long, value_name = "COUNT", default_value_t = 4096)]
    clients_max: u32,

    /// All routers of the group, this one as well, which members are told of: at most 8
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    routers: Vec<SocketAddr>,

    /// Full name of a service, such as `package.Service`, that all workers serve; may be repeated.
    /// Clients bind at the router, and workers have to fit the first one, and to listen
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,

    /// Where packets of binds come, over UDP, with --service [default: any port of --listen's
    /// address]
    #[arg(long, value_name = "ADDRESS")]
    binds: Option<SocketAddr>,

    /// Stand by: clients use another router as long as one says that it is active
    #[arg(long)]
    standby: bool,

    #[command(flatten)]
    security: SecurityOptions,
}

/// A group to be routed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupOptions {
    /// Where clients attach and workers join.
    pub listen: SocketAddr,
    /// Where packets come.
    #[serde(default)]
    pub data: Option<SocketAddr>,
    #[serde(default = "default_policy")]
    policy: String,
    #[serde(default)]
    payload_bytes: Option<u32>,
    #[serde(default = "default_clients_max")]
    clients_max: u32,
    #[serde(default)]
    routers: Vec<SocketAddr>,
    #[serde(default)]
    services: Vec<String>,
    /// Where packets of binds come.
    #[serde(default)]
    pub binds: Option<SocketAddr>,
    #[serde(default)]
    standby: bool,
    #[serde(default)]
    tls_cert: Option<PathBuf>,
    #[serde(default)]
    tls_key: Option<PathBuf>,
    #[serde(default)]
    tls_ca: Option<PathBuf>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    workers: Vec<String>,
    #[serde(default)]
    primaries: Vec<String>,
    #[serde(default = "default_cipher")]
    cipher: String,
    #[serde(default)]
    plaintext: bool,
}

fn default_policy() -> String {
    "jbsq3".to_owned()
}

fn default_cipher() -> String {
    "aes-128-gcm".to_owned()
}

fn default_clients_max() -> u32 {
    4096
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    group: Vec<GroupOptions>,
}

/// Why there is no configuration. The operator's fault.
#[derive(Debug, thiserror::Error)]
pub enum NotConfigured {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// The file is wrong.
    #[error("{0}: {1}")]
    Wrong(PathBuf, String),
}

impl Options {
    /// How long to go on when asked to end.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_s)
    }

    /// The groups; at least one.
    ///
    /// # Errors
    /// See [`NotConfigured`].
    pub fn groups(self) -> Result<Vec<GroupOptions>, NotConfigured> {
        let Some(path) = self.config else { return Ok(vec![self.group.into()]) };
        let text = std::fs::read_to_string(&path)
            .map_err(|error| NotConfigured::Unreadable(path.clone(), error))?;
        let file: File = toml::from_str(&text)
            .map_err(|error| NotConfigured::Wrong(path.clone(), error.to_string()))?;
        if file.group.is_empty() {
            return Err(NotConfigured::Wrong(path, "there is no [[group]]".to_owned()));
        }
        Ok(file.group)
    }
}

impl From<GroupArguments> for GroupOptions {
    fn from(given: GroupArguments) -> GroupOptions {
        let local = SocketAddr::from(([127, 0, 0, 1], 7000));
        GroupOptions {
            listen: given.listen.unwrap_or(local),
            data: given.data,
            policy: given.policy,
            payload_bytes: given.payload_bytes,
            clients_max: given.clients_max,
            routers: given.routers,
            services: given.services,
            binds: given.binds,
            standby: given.standby,
            tls_cert: given.security.tls_cert,
            tls_key: given.security.tls_key,
            tls_ca: given.security.tls_ca,
            allow: given.security.allow,
            workers: given.security.workers,
            primaries: given.security.primaries,
            cipher: given.security.cipher,
            plaintext: given.security.plaintext,
        }
    }
}

impl GroupOptions {
    /// Encryption and identity.
    pub fn security(&self) -> SecurityOptions {
        SecurityOptions {
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            tls_ca: self.tls_ca.clone(),
            allow: self.allow.clone(),
            workers: self.workers.clone(),
            primaries: self.primaries.clone(),
            cipher: self.cipher.clone(),
            plaintext: self.plaintext,
        }
    }

    /// What the router is started with.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn settings(&self) -> Result<GroupSettings, String> {
        let policy: Policy = self.policy.parse().map_err(|error| format!("policy: {error}"))?;
        let security = self.security();
        let default_bytes = if security.has_tls() { 1392 } else { 1400 };
        let payload_bytes = self.payload_bytes.unwrap_or(default_bytes);
        let clients_max = self.clients_max;
        let core = Config { policy, ..PlaneConfig::default().core };
        let plane = PlaneConfig { core, payload_bytes, clients_max, ..PlaneConfig::default() };
        let active = Active { is_active: !self.standby, term: u32::from(!self.standby) };
        if self.services.is_empty() && self.binds.is_some() {
            return Err("binds: the group has no services to bind".to_owned());
        }
        let (routers, services) = (self.routers.clone(), self.services.clone());
        let mut settings =
            GroupSettings { plane, routers, services, active, ..GroupSettings::default() };
        security.of_group(&mut settings)?;
        Ok(settings)
    }
}
