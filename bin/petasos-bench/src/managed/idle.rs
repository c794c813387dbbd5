//! What an idle application costs the service in memory.
//!
//! The applications are servers of this process that have attached and were called once, so that
//! whatever the service has for them is there; then they do nothing. How much more of the
//! service is resident than with the first of them, divided by their number, is the cost of one.
//! That has its part of shared memory that the service has touched.

use petasos::{Channel, Code, Server, ServiceChoice, ServiceConfig, block_on};
use serde_json::{Value, json};

use super::live::Nobody;
use super::messages::policies::{FirstClient, FirstServer, Numbered};
use super::service::{NULL, Service};
use super::team::{SERVER_CORE, resident_bytes};
use crate::error::BenchError;
use crate::rpc::typed::LOOPBACK;

/// How many applications are idle, beside the first. A user may have 128, and there is a caller of
/// each.
const APPLICATIONS: u64 = 48;
/// What the service is to have for one at most.
const GOAL_BYTES: u64 = 256 << 10;

/// How much of the service is resident, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    with_one: u64,
    with_all: u64,
}

impl Idle {
    /// Measures it.
    ///
    /// # Errors
    /// If the service was not built, or does not come up or serve.
    pub fn measure() -> Result<Idle, BenchError> {
        let service = Service::start(SERVER_CORE, NULL)?;
        let resident = || {
            let bytes = resident_bytes(service.running.program.id());
            bytes.ok_or("the system does not say what the service has")
        };
        let first = idle_application(&service.path())?;
        let with_one = resident()?;
        let others = (0..APPLICATIONS).map(|_| idle_application(&service.path()));
        let others = others.collect::<Result<Vec<_>, _>>()?;
        let with_all = resident()?;
        drop((first, others));
        Ok(Idle { with_one, with_all })
    }

    /// Bytes for each application.
    fn each(self) -> u64 {
        self.with_all.saturating_sub(self.with_one) / APPLICATIONS
    }

    /// For programs.
    pub fn json(self) -> Value {
        json!({
            "applications": APPLICATIONS,
            "resident_bytes": { "with_one": self.with_one, "with_all": self.with_all },
            "per_application_bytes": self.each(),
            "goal_bytes": GOAL_BYTES,
            "is_reached": self.each() <= GOAL_BYTES,
        })
    }

    /// For people.
    pub fn text(self) -> String {
        let (kib, mib) = (|bytes| bytes as f64 / 1024.0, |bytes| bytes as f64 / f64::from(1 << 20));
        format!(
            "service: {:.1} MiB resident with one idle application, {:.1} MiB with {APPLICATIONS} \
             more: {:.1} KiB each, of at most {:.0} KiB",
            mib(self.with_one),
            mib(self.with_all),
            kib(self.each()),
            kib(GOAL_BYTES),
        )
    }
}

/// A server that has attached, and was called through the service by an application for that.
fn idle_application(service: &str) -> Result<Server, BenchError> {
    let choice = ServiceChoice::Managed(ServiceConfig::new(service)?);
    let server = Server::builder().add(FirstServer::new(Nobody)).listen(LOOPBACK.to_string());
    let server = server.service(choice.clone()).start()?;
    let address = server.local_address().ok_or("the service gives it no address")?;
    let target = format!("petasos://{address}");
    let channel = block_on(Channel::builder(&target).service(choice).connect())?;
    match block_on(FirstClient::new(channel).call(Numbered::new())) {
        Err(status) if status.code() == Code::Unimplemented => Ok(server),
        answer => Err(format!("an idle application answers {:?}", answer.map(drop)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_has_is_compared_with_the_goal() {
        let of = |more: u64| Idle { with_one: 5 << 20, with_all: (5 << 20) + APPLICATIONS * more };
        let json = of(GOAL_BYTES).json();
        assert_eq!(
            (&json["per_application_bytes"], &json["is_reached"]),
            (&(256 << 10).into(), &true.into())
        );
        assert_eq!(of(GOAL_BYTES + 1).json()["is_reached"], false);
        assert!(of(100 << 10).text().contains("100.0 KiB each, of at most 256 KiB"));
        let less = Idle { with_one: 2, with_all: 1 };
        assert_eq!(less.json()["per_application_bytes"], 0);
    }
}
