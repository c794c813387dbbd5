//! The services and what is between them, in each of the ways that are compared.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use clap::ValueEnum;
use tokio::net::TcpStream;

use super::Stage;
use super::envoy::{self, Route};
use super::folder::Folder;
use super::network::HOSTS;
use super::process::{Process, Start};
use crate::error::Error;
use crate::service::{FRONTEND_CALLS, Service};

/// A way to carry calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum StackName {
    /// Petasos in the services
    Direct,
    /// Through a managed service on each host, without policies
    Managed,
    /// Through a managed service on each host, with a null policy for each application
    ManagedNull,
    /// tonic in the services
    Tonic,
    /// tonic through an Envoy on each host
    TonicEnvoy,
}

impl StackName {
    /// All of them.
    pub const ALL: [StackName; 5] = [
        StackName::Direct,
        StackName::Managed,
        StackName::ManagedNull,
        StackName::Tonic,
        StackName::TonicEnvoy,
    ];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            StackName::Direct => "direct",
            StackName::Managed => "managed",
            StackName::ManagedNull => "managed-null",
            StackName::Tonic => "tonic",
            StackName::TonicEnvoy => "tonic-envoy",
        }
    }

    const fn rpc(self) -> &'static str {
        match self {
            StackName::Direct | StackName::Managed | StackName::ManagedNull => "petasos",
            StackName::Tonic | StackName::TonicEnvoy => "tonic",
        }
    }

    /// The file of policies of the managed service, if there is one.
    const fn policies(self) -> Option<&'static str> {
        match self {
            StackName::Managed => Some("[]"),
            StackName::ManagedNull => Some(r#"[{"application": "*", "kind": "null"}]"#),
            _ => None,
        }
    }
}

/// The host of the frontend.
const FRONTEND_HOST: usize = 0;

/// A service's host: each call goes from one host to another.
const fn host(service: Service) -> usize {
    match service {
        Service::Search => 1,
        Service::Geo | Service::Reservation | Service::User => 2,
        Service::Rate | Service::Profile | Service::Recommendation => 3,
    }
}

/// Services in the order in which they can be started: those that are called first.
const ORDER: [Service; 7] = [
    Service::Geo,
    Service::Rate,
    Service::Profile,
    Service::Recommendation,
    Service::Reservation,
    Service::User,
    Service::Search,
];

/// A running application.
pub struct Stack {
    pub name: StackName,
    /// Where guests are answered.
    pub frontend: SocketAddr,
    // Dropped in this order: the folder after those who use it.
    _frontend: Process,
    services: BTreeMap<Service, Running>,
    between: Vec<Between>,
    folder: Folder,
}

struct Running {
    process: Option<Process>,
    address: SocketAddr,
}

/// What stands between a host's services and the network.
struct Between {
    _process: Option<Process>,
    /// Where the host's own services send calls.
    near: SocketAddr,
    /// Where other hosts send calls.
    far: SocketAddr,
}

impl Stack {
    /// Starts everything but the stores. It has to run in a local set on the main thread.
    ///
    /// # Errors
    /// A program is missing, or does not come up.
    pub async fn start(stage: &Stage, name: StackName) -> Result<Stack, Error> {
        let folder = Folder::new()?;
        let mut between = match name {
            StackName::Direct | StackName::Tonic => Vec::new(),
            StackName::Managed | StackName::ManagedNull => managed(stage, name, &folder).await?,
            StackName::TonicEnvoy => places_of_envoys(stage)?,
        };
        let mut services = BTreeMap::new();
        for service in ORDER {
            let start = Starting { stage, name, folder: &folder, between: &between };
            let listen = SocketAddr::new(stage.network.address(host(service)), 0);
            let running = start.service(service, listen, &services).await?;
            services.insert(service, running);
        }
        if name == StackName::TonicEnvoy {
            start_envoys(stage, &folder, &mut between, &services).await?;
        }
        let start = Starting { stage, name, folder: &folder, between: &between };
        let (process, frontend) = start.frontend(&services).await?;
        Ok(Stack { name, frontend, _frontend: process, services, between, folder })
    }

    /// Ends a service as an accident would.
    pub fn stop(&mut self, service: Service) {
        let running = self.services.get_mut(&service).expect("all are there");
        running.process = None;
    }

    /// Starts a service again, where it was.
    ///
    /// # Errors
    /// It does not come up.
    pub async fn restart(&mut self, stage: &Stage, service: Service) -> Result<(), Error> {
        let listen = self.services[&service].address;
        let start =
            Starting { stage, name: self.name, folder: &self.folder, between: &self.between };
        let running = start.service(service, listen, &self.services).await?;
        self.services.insert(service, running);
        Ok(())
    }
}

struct Starting<'a> {
    stage: &'a Stage,
    name: StackName,
    folder: &'a Folder,
    between: &'a [Between],
}

impl Starting<'_> {
    /// Where a program of one host calls a service.
    fn peer(&self, from: usize, service: Service, services: &BTreeMap<Service, Running>) -> String {
        let own = services[&service].address;
        let address = match self.name {
            StackName::Direct | StackName::Tonic => own,
            StackName::TonicEnvoy => self.between[from].near,
            // The service of the same host knows its applications by their own addresses.
            _ if host(service) == from => own,
            StackName::Managed | StackName::ManagedNull => self.between[host(service)].far,
        };
        format!("{}={address}", service.name())
    }

    /// Arguments and environment of a program that calls these services.
    fn common(
        &self,
        name: &str,
        from: usize,
        calls: &[Service],
        services: &BTreeMap<Service, Running>,
    ) -> (Vec<String>, Vec<(&'static str, String)>) {
        let mut words = vec!["--rpc".to_owned(), self.name.rpc().to_owned()];
        for service in calls {
            words.extend(["--peer".to_owned(), self.peer(from, *service, services)]);
        }
        if !self.stage.network.is_loopback() {
            words.push("--plaintext".to_owned());
        }
        let mut environment = Vec::new();
        if self.name.policies().is_some() {
            let path = socket(self.folder, from);
            environment.push(("PETASOS_SERVICE", format!("unix:{}", path.display())));
            environment.push(("PETASOS_APPLICATION", format!("hotel/{name}")));
        }
        (words, environment)
    }

    async fn service(
        &self,
        service: Service,
        listen: SocketAddr,
        services: &BTreeMap<Service, Running>,
    ) -> Result<Running, Error> {
        let (name, from) = (service.name(), host(service));
        let (common, environment) = self.common(name, from, service.calls(), services);
        let mut words = vec!["serve".to_owned(), name.to_owned()];
        words.extend(["--listen".to_owned(), listen.to_string()]);
        words.extend(common);
        if service.has_store() {
            words.extend(["--store".to_owned(), self.stage.stores.url()]);
        }
        if service.has_cache() {
            words.extend(["--cache".to_owned(), self.stage.stores.cache(service)]);
        }
        let (process, address) = self.start(name, from, words, environment).await?;
        Ok(Running { process: Some(process), address })
    }

    async fn frontend(
        &self,
        services: &BTreeMap<Service, Running>,
    ) -> Result<(Process, SocketAddr), Error> {
        let (name, from) = ("frontend", FRONTEND_HOST);
        let (common, environment) = self.common(name, from, &FRONTEND_CALLS, services);
        let listen = SocketAddr::new(self.stage.network.address(from), 0);
        let mut words = vec![name.to_owned(), "--listen".to_owned(), listen.to_string()];
        words.extend(common);
        self.start(name, from, words, environment).await
    }

    async fn start(
        &self,
        name: &str,
        from: usize,
        words: Vec<String>,
        environment: Vec<(&'static str, String)>,
    ) -> Result<(Process, SocketAddr), Error> {
        let own = std::env::current_exe().map_err(|error| Error::internal(error.to_string()))?;
        let network_of = self.stage.network.namespace(from);
        let start = Start { network_of, environment, ..Start::of(&own, words) };
        let mut process = start.start(name, self.folder.path())?;
        let address = process.line("listening on ").await?;
        let address = address.parse().map_err(|_| Error::internal(format!("{name}: {address}")))?;
        Ok((process, address))
    }
}

/// Where the managed service of a host takes applications. Its other sockets are beside that.
fn socket(folder: &Folder, host: usize) -> std::path::PathBuf {
    folder.path().join(format!("host-{host}/petasosd.sock"))
}

async fn managed(stage: &Stage, name: StackName, folder: &Folder) -> Result<Vec<Between>, Error> {
    let program = stage.programs.petasosd()?;
    let policies = folder.path().join("policies.json");
    write(&policies, name.policies().unwrap_or("[]"))?;
    let mut between = Vec::new();
    for host in 0..HOSTS {
        let far = stage.network.free_address(host)?;
        let socket = socket(folder, host);
        make_folder_of(&socket)?;
        let mut words = vec!["--socket".into(), socket.into_os_string()];
        words.extend(["--policies".into(), (&policies).into()]);
        // All hosts share this machine's processors: who looks for work keeps others from it.
        words.extend(["--spin-us".into(), "0".into()]);
        words.extend(["--listen".into(), far.to_string().into()]);
        if !stage.network.is_loopback() {
            words.push("--plaintext".into());
        }
        let network_of = stage.network.namespace(host);
        let start = Start { network_of, ..Start::of(program, words) };
        let mut process = start.start(&format!("petasosd-{host}"), folder.path())?;
        process.line("petasosd: listening at ").await?;
        between.push(Between { _process: Some(process), near: far, far });
    }
    Ok(between)
}

fn places_of_envoys(stage: &Stage) -> Result<Vec<Between>, Error> {
    // What is missing shows before anything is started.
    stage.programs.envoy()?;
    let place = |host| {
        let (near, far) = (stage.network.free_address(host)?, stage.network.free_address(host)?);
        Ok(Between { _process: None, near, far })
    };
    (0..HOSTS).map(place).collect()
}

async fn start_envoys(
    stage: &Stage,
    folder: &Folder,
    between: &mut [Between],
    services: &BTreeMap<Service, Running>,
) -> Result<(), Error> {
    let far: Vec<SocketAddr> = between.iter().map(|envoy| envoy.far).collect();
    for (number, envoy) in between.iter_mut().enumerate() {
        let of = |service: Service, address| Route { service, address };
        let out = Service::ALL.map(|service| of(service, far[host(service)]));
        let here = services.iter().filter(|(service, _)| host(**service) == number);
        let here: Vec<Route> = here.map(|(name, running)| of(*name, running.address)).collect();
        let configuration = envoy::configuration((envoy.near, &out), (envoy.far, &here));
        let file = folder.path().join(format!("envoy-{number}.json"));
        write(&file, &configuration.to_string())?;
        let words = ["--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c"];
        let words = words.into_iter().map(Into::into).chain([file]);
        let network_of = stage.network.namespace(number);
        let start = Start { network_of, ..Start::of(stage.programs.envoy()?, words) };
        let mut process = start.start(&format!("envoy-{number}"), folder.path())?;
        for address in [envoy.near, envoy.far] {
            process.until(async |_| TcpStream::connect(address).await.ok()).await?;
        }
        envoy._process = Some(process);
    }
    Ok(())
}

fn make_folder_of(path: &Path) -> Result<(), Error> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir);
    made.map_err(|error| Error::internal(format!("{}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let written = std::fs::write(path, text);
    written.map_err(|error| Error::internal(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_goes_to_another_host() {
        for service in Service::ALL {
            assert!(service.calls().iter().all(|called| host(*called) != host(service)));
            assert!(host(service) < HOSTS);
        }
        assert!(FRONTEND_CALLS.iter().all(|called| host(*called) != FRONTEND_HOST));
    }

    #[test]
    fn services_are_started_after_those_that_they_call() {
        for (at, service) in ORDER.into_iter().enumerate() {
            assert!(service.calls().iter().all(|called| ORDER[..at].contains(called)));
        }
        assert!(Service::ALL.iter().all(|service| ORDER.contains(service)));
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for name in StackName::ALL {
            let value = name.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), name.name());
        }
    }
}
