//! How operators reach the router.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use petasos_operator::Account;
use serde::Deserialize;

/// Options of the command line, or a table `[admin]` of the file.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct AdminOptions {
    /// Where operators connect (`petasos ctl router`); nobody can without it. In the file, `socket`
    #[arg(long = "admin", value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// A user or group, `uid:N` or `gid:N`, who may look; may be repeated. Root and the router's
    /// user may look and change
    #[arg(long = "viewer", value_name = "ACCOUNT")]
    #[serde(deserialize_with = "accounts")]
    pub viewers: Vec<Account>,

    /// Append what operators do to this file, a JSON object per line
    #[arg(long, value_name = "PATH")]
    pub audit: Option<PathBuf>,

    /// Serve what is counted to Prometheus, at http://ADDR/metrics. Every process of this host can
    /// read it there
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,

    /// Allow --metrics at an address beyond this host, where everybody in the network can read
    #[arg(long)]
    pub metrics_plaintext: bool,
}

impl AdminOptions {
    /// These, and what they leave out from others.
    pub fn or(self, others: AdminOptions) -> AdminOptions {
        let viewers = if self.viewers.is_empty() { others.viewers } else { self.viewers };
        AdminOptions {
            socket: self.socket.or(others.socket),
            viewers,
            audit: self.audit.or(others.audit),
            metrics: self.metrics.or(others.metrics),
            metrics_plaintext: self.metrics_plaintext || others.metrics_plaintext,
        }
    }
}

fn accounts<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Account>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let parsed = texts.iter().map(|text| {
        text.parse().map_err(|error| serde::de::Error::custom(format!("`{text}`: {error}")))
    });
    parsed.collect()
}
