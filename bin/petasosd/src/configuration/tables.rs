//! What a configuration file has that is no option: applications with their quotas, quotas of
//! others, and policies.
//!
//! ```toml
//! [application.shop]
//! accounts = ["uid:1001"]
//! transport = { listen = "10.0.0.7:4101", tls-cert = "shop.pem", tls-key = "shop.key",
//!               tls-ca = "ca.pem" }
//! quota = { items = 1000, processor-percent = 50.0 }
//!
//! [quota]                # of applications without one of their own
//! held-bytes = 67108864
//!
//! [[policies]]
//! application = "*"
//! kind = "rate_limit"
//! configuration = { rate_per_s = 50000, burst = 100 }
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use petasos::{Msg, Security};
use petasos_admin as proto;
use petasos_operator::Account;
use serde::Deserialize;
use toml::{Table, Value};

use crate::names::check_name;
use crate::policies::Line;
use crate::quotas::Quotas;
use crate::security::SecurityOptions;
use crate::transport::{ApplicationTransport, Carrier, Certificate};

/// What is in the tables.
pub struct Tables {
    /// The policies, if they are here and not in a file of their own.
    pub policies: Option<Vec<Line>>,
    /// What applications may have.
    pub quotas: Quotas,
    /// Names, with the accounts whose processes may have them.
    pub applications: Vec<(String, Account)>,
    /// Applications that have transports of their own.
    pub transports: Vec<ApplicationTransport>,
}

/// An application.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Application {
    accounts: Option<Vec<String>>,
    transport: Option<Transport>,
    quota: Option<Quota>,
}

/// How other hosts reach an application, and it them. The keys are those of the options.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Transport {
    listen: Option<SocketAddr>,
    listen_grpc: Option<SocketAddr>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
    #[serde(default)]
    allow: Vec<String>,
    transport: Option<Carrier>,
}

/// What applications may have. What it does not say is as for all others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Quota {
    items: Option<u64>,
    message_bytes: Option<u64>,
    metadata_bytes: Option<u64>,
    held_bytes: Option<u64>,
    descriptors: Option<u64>,
    processor_percent: Option<f64>,
    calls: Option<u64>,
    send_heap_bytes: Option<u64>,
    receive_heap_bytes: Option<u64>,
}

impl Tables {
    /// Takes them out of a file.
    ///
    /// # Errors
    /// A text that says which, and what is wrong with it.
    pub fn take(table: &mut Table) -> Result<Tables, String> {
        let mut quotas = Quotas::default();
        if let Some(quota) = taken::<Quota>(table, "quota")? {
            quotas.set(&quota.message("")).map_err(|error| format!("`quota`: {error}"))?;
        }
        let (mut applications, mut transports) = (Vec::new(), Vec::new());
        // A list is of the option `--application`.
        if table.get("application").is_some_and(Value::is_table) {
            let named: BTreeMap<String, Application> =
                taken(table, "application")?.unwrap_or_default();
            for (name, application) in &named {
                let its = application.add(name, &mut quotas, &mut applications);
                its.map_err(|wrong| format!("`application.{name}`: {wrong}"))?;
                let transport = application.transport(name);
                let transport = transport
                    .map_err(|wrong| format!("`application.{name}.transport`: {wrong}"))?;
                transports.extend(transport);
            }
        }
        // A text is a file of policies.
        let policies = match table.get("policies").is_some_and(Value::is_array) {
            true => taken(table, "policies")?,
            false => None,
        };
        Ok(Tables { policies, quotas, applications, transports })
    }
}

fn taken<T: serde::de::DeserializeOwned>(
    table: &mut Table,
    key: &str,
) -> Result<Option<T>, String> {
    let Some(value) = table.remove(key) else { return Ok(None) };
    let read = T::deserialize(value);
    read.map(Some).map_err(|error| format!("`{key}`: {}", error.message()))
}

impl Application {
    fn add(
        &self,
        name: &str,
        quotas: &mut Quotas,
        applications: &mut Vec<(String, Account)>,
    ) -> Result<(), String> {
        check_name(name)?;
        if self.accounts.as_ref().is_some_and(Vec::is_empty) {
            return Err(
                "an empty list would let everybody have the name: leave it out for that, or \
                        name an account that nobody has"
                    .to_owned(),
            );
        }
        for account in self.accounts.iter().flatten() {
            let account = account.parse().map_err(|form| format!("`{account}`: {form}"))?;
            applications.push((name.to_owned(), account));
        }
        match &self.quota {
            Some(quota) => quotas.set(&quota.message(name)).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Its own transport, if it has one.
    fn transport(&self, name: &str) -> Result<Option<ApplicationTransport>, String> {
        let Some(its) = self.transport.clone() else { return Ok(None) };
        let Transport { listen, listen_grpc, tls_cert, tls_key, tls_ca, allow, transport } = its;
        let options = SecurityOptions { tls_cert, tls_key, tls_ca, allow, plaintext: false };
        let certificate = match options.security()? {
            security @ Security::Tls(_) => Some(Certificate { options, security }),
            _ => None,
        };
        let is_its_own = certificate.is_some() || listen.is_some() || listen_grpc.is_some();
        if !is_its_own && transport.is_none() {
            let some = "give it `listen`, `listen-grpc`, `transport` or a certificate";
            return Err(some.to_owned());
        }
        let (application, carrier) = (name.to_owned(), transport);
        Ok(Some(ApplicationTransport { application, listen, listen_grpc, carrier, certificate }))
    }
}

impl Quota {
    fn message(&self, name: &str) -> Msg<proto::Quota> {
        let mut message = proto::Quota::new();
        let mut edit = message.edit();
        edit.set_application(name);
        self.items.map(|value| edit.set_items_max(value).items_max());
        self.message_bytes.map(|value| edit.set_message_bytes_max(value).message_bytes_max());
        self.metadata_bytes.map(|value| edit.set_metadata_bytes_max(value).metadata_bytes_max());
        self.held_bytes.map(|value| edit.set_held_bytes_max(value).held_bytes_max());
        self.descriptors.map(|value| edit.set_descriptors_max(value).descriptors_max());
        self.processor_percent.map(|value| edit.set_processor_percent(value).processor_percent());
        self.calls.map(|value| edit.set_calls_max(value).calls_max());
        self.send_heap_bytes.map(|value| edit.set_send_heap_bytes(value).send_heap_bytes());
        self.receive_heap_bytes
            .map(|value| edit.set_receive_heap_bytes(value).receive_heap_bytes());
        message
    }
}
