//! The configuration: a group by options of the command line, or several by a file.
//!
//! A key of the file is the long name of an option, with `_` for `-`, so that each has one meaning
//! and one check. An option that may be repeated is a list there, with its name in the plural. The
//! options for operators are in a table `[admin]`, and those of the command line replace them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use petasos_router::{Config, Policy};
use petasos_router_control::{Active, GroupSettings, PlaneConfig, Workers};
use serde::Deserialize;

use self::arguments::GroupArguments;
use self::care::{default_eject_failures, default_eject_ms};
pub use self::file::NotConfigured;
use crate::admin_options::AdminOptions;
use crate::plane_options::{PlaneKind, PlaneOptions};
use crate::security::SecurityOptions;
use crate::takeover::Subnetted;

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
            "listen", "data", "policy", "waiting_max", "waiting_age_ms", "payload_bytes",
            "priority_max", "hold_us", "slow_start_ms", "eject_percent", "eject_failures",
            "eject_ms",
            "clients_max", "asked_max", "routers", "standby", "plaintext", "services", "binds",
            "workers", "primaries", "tls_cert", "tls_key", "tls_ca", "allow", "cipher", "plane",
            "virtual_address", "interface", "peer", "takeover_ms", "queue", "partial_checksums",
            "etcd", "etcd_address", "feedback", "holder",
        ]
    )]
    config: Option<PathBuf>,

    /// Only say what is wrong with the options, or with this file: a router that runs is not
    /// disturbed
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    check: Option<Option<PathBuf>>,

    /// Be no router, but hold the programs of those that are started with `--plane xdp --holder
    /// PATH` by this user: so calls go on while they are killed and replaced. It needs no privilege
    #[arg(long, value_name = "PATH", exclusive = true)]
    hold: Option<PathBuf>,

    /// How long to go on after SIGTERM, so that clients and workers go elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    drain_s: u64,

    #[command(flatten)]
    admin: AdminOptions,

    #[command(flatten)]
    group: GroupArguments,
}

/// What a process is to do.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its groups; at least one.
    pub groups: Vec<GroupOptions>,
    /// How operators reach it.
    pub admin: AdminOptions,
}

/// A group to be routed.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct GroupOptions {
    /// Where clients attach and workers join.
    pub listen: SocketAddr,
    /// Where packets come.
    #[serde(default)]
    pub data: Option<SocketAddr>,
    #[serde(default = "default_policy")]
    policy: String,
    #[serde(default = "default_waiting_max")]
    waiting_max: usize,
    /// What greater priorities count as.
    #[serde(default = "default_priority_max")]
    pub priority_max: u8,
    #[serde(default = "default_waiting_age_ms")]
    waiting_age_ms: u64,
    #[serde(default)]
    hold_us: u64,
    #[serde(default)]
    slow_start_ms: u64,
    #[serde(default)]
    eject_percent: u8,
    #[serde(default = "default_eject_failures")]
    eject_failures: u32,
    #[serde(default = "default_eject_ms")]
    eject_ms: u64,
    #[serde(default)]
    payload_bytes: Option<u32>,
    /// The most clients.
    #[serde(default = "default_clients_max")]
    pub clients_max: u32,
    #[serde(default = "default_asked_max")]
    asked_max: u32,
    #[serde(default)]
    workers: Option<Vec<String>>,
    #[serde(default)]
    primaries: Option<Vec<String>>,
    /// All routers of the group.
    #[serde(default)]
    pub routers: Vec<SocketAddr>,
    /// What all workers serve.
    #[serde(default)]
    pub services: Vec<String>,
    /// Where packets of binds come.
    #[serde(default)]
    pub binds: Option<SocketAddr>,
    /// Clients use another router as long as one says that it is active.
    #[serde(default)]
    pub standby: bool,
    /// What the active one of two routers has.
    #[serde(default)]
    pub virtual_address: Option<Subnetted>,
    /// Where it has it.
    #[serde(default)]
    pub interface: Option<String>,
    /// The other one.
    #[serde(default)]
    pub peer: Option<SocketAddr>,
    /// After so much silence it has failed.
    #[serde(default = "default_takeover_ms")]
    pub takeover_ms: u64,
    /// Where in etcd the router is listed.
    #[serde(default)]
    pub etcd: Option<String>,
    /// At which address.
    #[serde(default)]
    pub etcd_address: Option<SocketAddr>,
    #[serde(default)]
    plane: PlaneKind,
    #[serde(default)]
    queue: Option<u32>,
    #[serde(default)]
    feedback: Option<SocketAddr>,
    #[serde(default)]
    partial_checksums: bool,
    #[serde(default)]
    holder: Option<PathBuf>,
    #[serde(default)]
    tls_cert: Option<PathBuf>,
    #[serde(default)]
    tls_key: Option<PathBuf>,
    #[serde(default)]
    tls_ca: Option<PathBuf>,
    #[serde(default)]
    allow: Vec<String>,
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

fn default_priority_max() -> u8 {
    15
}

fn default_waiting_max() -> usize {
    16_384
}

fn default_waiting_age_ms() -> u64 {
    1000
}

fn default_asked_max() -> u32 {
    4096
}

fn default_clients_max() -> u32 {
    4096
}

fn default_takeover_ms() -> u64 {
    60
}

impl Options {
    /// How long to go on when asked to end.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_s)
    }

    /// Whether only what is wrong is to be said.
    pub fn is_check(&self) -> bool {
        self.check.is_some()
    }

    /// Where programs are to be held, if this is to be no router.
    pub fn holds_at(&self) -> Option<&Path> {
        self.hold.as_deref()
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.check.iter().flatten().next().or(self.config.as_ref()).map(PathBuf::as_path)
    }

    /// What the options and the file say, which is read now.
    ///
    /// # Errors
    /// See [`NotConfigured`].
    pub fn read(&self) -> Result<Configuration, NotConfigured> {
        let admin = self.admin.clone();
        match self.file() {
            None => Ok(Configuration { groups: vec![self.group.clone().into()], admin }),
            Some(path) => {
                let (groups, of_file) = file::read(path)?;
                Ok(Configuration { groups, admin: admin.or(of_file) })
            }
        }
    }
}

impl GroupOptions {
    /// Bytes of a request or response in a packet.
    pub fn payload_bytes(&self) -> u32 {
        let default_bytes = if self.security().has_tls() { 1392 } else { 1400 };
        self.payload_bytes.unwrap_or(default_bytes)
    }

    /// What packets come and go by.
    pub fn plane(&self) -> PlaneOptions {
        PlaneOptions {
            plane: self.plane,
            // Without AF_XDP it is the virtual address's.
            interface: self
                .interface
                .clone()
                .filter(|_| self.plane != PlaneKind::Udp || self.virtual_address.is_none()),
            queue: self.queue,
            feedback: self.feedback,
            partial_checksums: self.partial_checksums,
            holder: self.holder.clone(),
        }
    }

    /// Where packets come: by default any port of the control address.
    pub fn data_address(&self) -> SocketAddr {
        self.data.unwrap_or(SocketAddr::new(self.listen.ip(), 0))
    }

    /// Encryption and identity.
    pub fn security(&self) -> SecurityOptions {
        SecurityOptions {
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            tls_ca: self.tls_ca.clone(),
            allow: self.allow.clone(),
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
        let (payload_bytes, clients_max) = (self.payload_bytes(), self.clients_max);
        let age = Duration::from_millis(self.waiting_age_ms);
        let waiting_age_max = Some(age).filter(|age| !age.is_zero());
        let (waiting_max, priority_max) = (self.waiting_max, self.priority_max);
        let rest = PlaneConfig::default().core;
        let core = Config { policy, waiting_max, priority_max, waiting_age_max, ..rest };
        let core = self.of_care(core);
        // Whether packets are sealed, the node says.
        let plane = PlaneConfig { core, payload_bytes, clients_max, ..PlaneConfig::default() };
        // With a virtual address, the first one to be active finds that out.
        let has_address = self.takeover()?.is_some();
        let is_active = !self.standby && !has_address;
        let active = Active { is_active, term: u32::from(is_active) };
        if self.services.is_empty() && self.binds.is_some() {
            return Err("binds: the group has no services to bind".to_owned());
        }
        self.plane().check(self.data_address())?;
        self.listing()?;
        let (routers, services) = (self.routers.clone(), self.services.clone());
        let workers = Workers { allowed: self.workers.clone(), primaries: self.primaries.clone() };
        let (asked_max, rest) = (self.asked_max, GroupSettings::default());
        let mut settings =
            GroupSettings { plane, workers, asked_max, routers, services, active, ..rest };
        security.of_group(&mut settings)?;
        settings.check().map_err(|error| care::in_names_of_options(&error.to_string()))?;
        Ok(settings)
    }
}

impl GroupOptions {
    /// What a virtual address depends on.
    pub fn of_takeover(&self) -> (Option<Subnetted>, Option<&str>, Option<SocketAddr>, u64) {
        (self.virtual_address, self.interface.as_deref(), self.peer, self.takeover_ms)
    }

    /// What of members' settings is other than before, for people.
    pub fn member_differences(&self, before: &GroupOptions) -> Vec<String> {
        let mut all = Vec::new();
        for (name, now, was) in [
            ("clients_max", self.clients_max, before.clients_max),
            ("asked_max", self.asked_max, before.asked_max),
        ] {
            if now != was {
                all.push(format!("{name} {now}, was {was}"));
            }
        }
        for (name, is_other) in [
            ("workers", self.workers != before.workers),
            ("primaries", self.primaries != before.primaries),
            ("routers", self.routers != before.routers),
        ] {
            if is_other {
                all.push(format!("{name} are others"));
            }
        }
        all
    }
}

/// At the same addresses, but at any port, by UDP, without a virtual address and not listed: a
/// router that runs may use these.
pub fn at_any_ports(group: &GroupOptions) -> GroupOptions {
    let any = |address: SocketAddr| SocketAddr::new(address.ip(), 0);
    let listen = any(group.listen);
    let [data, binds, feedback] = [group.data, group.binds, group.feedback].map(|at| at.map(any));
    let mut group = GroupOptions { listen, data, binds, feedback, ..group.clone() };
    (group.virtual_address, group.interface, group.peer) = (None, None, None);
    (group.etcd, group.etcd_address) = (None, None);
    (group.plane, group.queue, group.partial_checksums) = (PlaneKind::Udp, None, false);
    group.holder = None;
    group
}

mod arguments;
mod care;
mod file;
mod listed;
mod shared;
#[cfg(test)]
mod tests;
