//! The programs of a measurement: the router, parts of this program, and proxies.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use petasos_base::SystemClock;
use rustix::process::{Pid, Signal, kill_process};

use super::link::Link;
use super::messages::SERVICE;
use super::operator::Operator;
use super::part_args::PartName;
use super::plane::Plane;
use crate::error::BenchError;
use crate::managed::folder::Folder;
use crate::managed::launch::Launched;
use crate::managed::sidecars::{Running, Sidecar, last_line, template};
use crate::rpc::process::{Process, cpu_s_of};

/// The core of whoever calls.
pub const CLIENT_CORE: usize = 0;
/// The core of routers, proxies, and workers that sleep.
pub const ROUTER_CORE: usize = 1;
/// How long a router may take to start.
const READY_MAX: Duration = Duration::from_secs(20);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(5);

/// A running router.
pub struct Router {
    program: Launched,
    /// Where clients attach and workers join.
    pub address: SocketAddr,
    folder: Folder,
    /// If it is not on this host.
    link: Option<Link>,
}

/// Where operators connect, in a router's folder.
const ADMIN: &str = "admin";

impl Router {
    /// Starts one at any port.
    ///
    /// # Errors
    /// If it was not built, or does not come up.
    pub fn start(policy: &str, options: &[&str]) -> Result<Router, BenchError> {
        Router::start_at("127.0.0.1:0", SERVICE, policy, options)
    }

    /// Starts one at the other end of a link, with a plane.
    ///
    /// # Errors
    /// If it was not built, or does not come up there.
    pub fn by(plane: Plane, policy: &str, options: &[&str]) -> Result<Router, BenchError> {
        let link = plane.link()?;
        let listen = format!("{}:0", link.far());
        let own = ["--listen", &listen, "--policy", policy, "--service", SERVICE];
        let router = link.at_router(|| {
            Router::launched(policy, |command| {
                command.args(own).args(plane.options(&link)).args(options);
            })
        })?;
        Ok(Router { link: Some(link), ..router })
    }

    /// The address at which its workers and clients are.
    pub fn members_ip(&self) -> IpAddr {
        self.link.as_ref().map_or(Ipv4Addr::LOCALHOST.into(), Link::near)
    }

    /// Connects to it as who operates it.
    ///
    /// # Errors
    /// If it is gone.
    pub fn operator(&self) -> Result<Operator, BenchError> {
        Operator::at(&self.folder.path().join(ADMIN))
    }

    /// Starts one of a service, at an address.
    ///
    /// # Errors
    /// If it was not built, or does not come up.
    pub fn start_at(
        listen: &str,
        service: &str,
        policy: &str,
        options: &[&str],
    ) -> Result<Router, BenchError> {
        Router::launch(listen, policy, &[&["--service", service], options].concat())
    }

    /// Starts one at any port, for the services that the options name.
    ///
    /// # Errors
    /// If it was not built, or does not come up.
    pub fn of(policy: &str, options: &[&str]) -> Result<Router, BenchError> {
        Router::launch("127.0.0.1:0", policy, options)
    }

    /// Starts one with a file that has one group.
    ///
    /// # Errors
    /// If it was not built, or does not come up.
    pub fn with_file(path: &Path) -> Result<Router, BenchError> {
        Router::launched("a file", |command| {
            command.arg("--config").arg(path);
        })
    }

    fn launch(listen: &str, policy: &str, options: &[&str]) -> Result<Router, BenchError> {
        Router::launched(policy, |command| {
            command.args(["--listen", listen, "--policy", policy]).args(options);
        })
    }

    fn launched(with: &str, options: impl FnOnce(&mut Command)) -> Result<Router, BenchError> {
        let folder = Folder::new("petasos-router")?;
        let mut command = Command::new(beside("petasos-router", "petasos-router-program")?);
        options(&mut command);
        command.arg("--admin").arg(folder.path().join(ADMIN));
        let says = folder.path().join("says");
        let who = format!("petasos-router with {with}");
        let mut program = Launched::start(who, ROUTER_CORE, &command, File::create(&says)?)?;
        let clock = SystemClock::default();
        let give_up_at = clock.now() + READY_MAX;
        loop {
            let said = std::fs::read_to_string(&says).unwrap_or_default();
            if let Some(address) = joined_at(&said) {
                return Ok(Router { program, address, folder, link: None });
            }
            if program.has_ended() || clock.now() > give_up_at {
                return Err(format!("the router does not start: {}", last_line(&said)).into());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Its processor time so far, in seconds.
    pub fn cpu_s(&self) -> f64 {
        cpu_s_of(self.program.id()).unwrap_or_default()
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// The system's.
    pub fn kill(&mut self) -> Result<(), BenchError> {
        self.program.kill()
    }

    /// SIGHUP: it reads its file again.
    ///
    /// # Errors
    /// The system's.
    pub fn hang_up(&self) -> Result<(), BenchError> {
        self.signal(Signal::HUP)
    }

    /// SIGTERM, and waits until it has ended.
    ///
    /// # Errors
    /// If it does not end in time.
    pub fn end(&mut self) -> Result<(), BenchError> {
        self.signal(Signal::TERM)?;
        let clock = SystemClock::default();
        let give_up_at = clock.now() + READY_MAX;
        while !self.program.has_ended() {
            if clock.now() > give_up_at {
                return Err("the router does not end".into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), BenchError> {
        let id = Pid::from_raw(self.program.id() as i32).ok_or("the router has no process")?;
        Ok(kill_process(id, signal)?)
    }
}

/// Processor time of a program and of those that it has started, in seconds.
pub fn cpu_s_with_children(id: u32) -> f64 {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    let of = |id| cpu_s_of(id).unwrap_or_default();
    of(id) + children.map(of).sum::<f64>()
}

/// The address in what a router says.
fn joined_at(said: &str) -> Option<SocketAddr> {
    said.split_once("join at ")?.1.split_once(',')?.0.parse().ok()
}

/// A program that is built beside this one, and its package.
///
/// # Errors
/// If it was not built.
pub fn beside(name: &str, package: &str) -> Result<PathBuf, BenchError> {
    let program = std::env::current_exe()?.with_file_name(name);
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("{name} is not built: `cargo build --release -p {package}`").into()),
    }
}

/// Starts a part, and waits until it is ready. Returns its addresses.
///
/// # Errors
/// If it does not come up.
pub fn part(
    name: PartName,
    core: usize,
    options: &[(&str, String)],
    routers: &[SocketAddr],
) -> Result<(Process, Vec<SocketAddr>), BenchError> {
    let (process, addresses) = Process::start(
        format!("{} on core {core}", name.name()),
        part_command(name, core, options, routers)?,
        None,
    )?;
    let addresses = addresses.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
    Ok((process, addresses))
}

/// The command of a part.
///
/// # Errors
/// The system's.
pub fn part_command(
    name: PartName,
    core: usize,
    options: &[(&str, String)],
    routers: &[SocketAddr],
) -> Result<Command, BenchError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["router-part", name.name(), "--core", &core.to_string()]);
    for (option, value) in options {
        command.args([option, value.as_str()]);
    }
    for router in routers {
        command.args(["--router", &router.to_string()]);
    }
    Ok(command)
}

/// A proxy that balances the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancer {
    /// `least_conn` with so many processes, which know of each other with a zone only.
    Nginx { processes: u32, has_zone: bool },
    /// `leastconn`, one thread.
    Haproxy,
}

impl Balancer {
    /// Starts it before HTTP servers.
    ///
    /// # Errors
    /// If it is not installed, or does not come up.
    pub fn start(self, servers: &[SocketAddr]) -> Result<Running, BenchError> {
        let ports: Vec<u16> = servers.iter().map(SocketAddr::port).collect();
        let sidecar = match self {
            Balancer::Nginx { .. } => Sidecar::Nginx,
            Balancer::Haproxy => Sidecar::Haproxy,
        };
        sidecar.start_as(ROUTER_CORE, |listen, folder| {
            template::render(&self.template(), listen, &ports, &folder.to_string_lossy())
        })
    }

    fn template(self) -> String {
        match self {
            Balancer::Haproxy => {
                include_str!("../../../../bench/sidecars/balance-haproxy.cfg").to_owned()
            }
            Balancer::Nginx { processes, has_zone } => {
                let template = include_str!("../../../../bench/sidecars/balance-nginx.conf");
                let template = template.replace("@PROCESSES@", &processes.to_string());
                template.replace("# ZONE", if has_zone { "zone servers 1m;" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_the_line_of_a_router() {
        let said = "petasos-router: ready: attach and join at 127.0.0.1:7000, packets at udp x\n";
        assert_eq!(joined_at(said), Some(SocketAddr::from(([127, 0, 0, 1], 7000))));
        assert_eq!(joined_at("petasos-router: 127.0.0.1:7000"), None);
    }

    #[test]
    fn configurations_have_their_zone_and_processes() {
        let nginx = |has_zone| Balancer::Nginx { processes: 2, has_zone }.template();
        assert!(nginx(true).contains("zone servers 1m;") && !nginx(false).contains("zone servers"));
        assert!(nginx(false).contains("worker_processes 2;\n"));
        assert!(Balancer::Haproxy.template().contains("balance leastconn\n"));
    }
}
