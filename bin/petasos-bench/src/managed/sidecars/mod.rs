//! Proxies of other people, one on each host, that pass on tonic's calls.
//!
//! Their configurations are in `bench/sidecars`, which also says where they come from.

mod envoy;
pub mod template;

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use petasos_base::SystemClock;

use super::folder::Folder;
use super::launch::Launched;
use crate::error::BenchError;

/// A proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sidecar {
    Envoy,
    Nginx,
    Haproxy,
    Nghttpx,
}

/// A running proxy: at which address, and its files.
pub struct Running {
    pub program: Launched,
    pub address: SocketAddr,
    pub folder: Folder,
}

/// How long a proxy may take until it accepts connections.
const READY_MAX: Duration = Duration::from_secs(20);
/// Between two attempts to connect to it.
const RETRY: Duration = Duration::from_millis(10);

impl Sidecar {
    /// All of them.
    #[cfg(test)]
    const ALL: [Sidecar; 4] = [Sidecar::Envoy, Sidecar::Nginx, Sidecar::Haproxy, Sidecar::Nghttpx];

    /// The program's name.
    pub const fn name(self) -> &'static str {
        match self {
            Sidecar::Envoy => "envoy",
            Sidecar::Nginx => "nginx",
            Sidecar::Haproxy => "haproxy",
            Sidecar::Nghttpx => "nghttpx",
        }
    }

    /// The name of its configuration file.
    fn file(self) -> &'static str {
        match self {
            Sidecar::Envoy => "envoy.yaml",
            Sidecar::Nginx => "nginx.conf",
            Sidecar::Haproxy => "haproxy.cfg",
            Sidecar::Nghttpx => "nghttpx.conf",
        }
    }

    fn template(self) -> &'static str {
        match self {
            Sidecar::Envoy => include_str!("../../../../../bench/sidecars/envoy.yaml"),
            Sidecar::Nginx => include_str!("../../../../../bench/sidecars/nginx.conf"),
            Sidecar::Haproxy => include_str!("../../../../../bench/sidecars/haproxy.cfg"),
            Sidecar::Nghttpx => include_str!("../../../../../bench/sidecars/nghttpx.conf"),
        }
    }

    /// The program's path.
    ///
    /// # Errors
    /// If it is not installed: what to install.
    pub fn program(self) -> Result<PathBuf, BenchError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        match self.package() {
            Some(package) => self.installed(package, std::env::split_paths(&path).chain(others())),
            None => envoy::program(),
        }
    }

    /// The Debian package that has it, if one has.
    fn package(self) -> Option<&'static str> {
        match self {
            Sidecar::Envoy => None,
            Sidecar::Nginx => Some("nginx-light"),
            Sidecar::Haproxy => Some("haproxy"),
            Sidecar::Nghttpx => Some("nghttp2-proxy"),
        }
    }

    /// The program in one of the folders.
    fn installed(
        self,
        package: &str,
        mut folders: impl Iterator<Item = PathBuf>,
    ) -> Result<PathBuf, BenchError> {
        let is_there = |folder: PathBuf| Some(folder.join(self.name())).filter(|at| at.is_file());
        folders.find_map(is_there).ok_or_else(|| {
            format!("{} is not installed: install Debian package `{package}`", self.name()).into()
        })
    }

    /// The program's arguments for a configuration file.
    fn arguments(self, file: &Path, folder: &Path) -> Vec<OsString> {
        let (file, folder) = (file.as_os_str().to_owned(), folder.as_os_str().to_owned());
        match self {
            Sidecar::Envoy => {
                let words = ["--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c"];
                words.into_iter().map(OsString::from).chain([file]).collect()
            }
            Sidecar::Nginx => {
                vec!["-p".into(), folder, "-e".into(), "stderr".into(), "-c".into(), file]
            }
            Sidecar::Haproxy => vec!["-db".into(), "-f".into(), file],
            Sidecar::Nghttpx => {
                let mut option = OsString::from("--conf=");
                option.push(file);
                vec![OsString::from("--log-level=ERROR"), option]
            }
        }
    }

    /// The configuration for these addresses.
    fn configuration(self, filter: &str, listen: u16, servers: &[u16], folder: &Path) -> String {
        let template = template::with_filter(self.template(), filter);
        template::render(&template, listen, servers, &folder.to_string_lossy())
    }

    /// The command and the configuration, with example addresses and a filter of calls.
    pub fn shown(self, filter: &str) -> String {
        let folder = Path::new("FOLDER");
        let arguments = self.arguments(&folder.join(self.file()), folder);
        let arguments: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        let configuration = self.configuration(filter, 50_001, &[50_002], folder);
        format!("$ {} {}\n\n{configuration}", self.name(), arguments.join(" "))
    }

    /// Starts it on a core, before `servers`, and waits until it accepts connections. Calls pass
    /// the filter, if it is not empty.
    ///
    /// # Errors
    /// If it is not installed, or does not come up.
    pub fn start(
        self,
        core: usize,
        servers: &[SocketAddr],
        filter: &str,
    ) -> Result<Running, BenchError> {
        let ports: Vec<u16> = servers.iter().map(SocketAddr::port).collect();
        self.start_as(core, |listen, folder| self.configuration(filter, listen, &ports, folder))
    }

    /// The same, with the configuration for a port to listen at and a folder for its files.
    ///
    /// # Errors
    /// See [`Sidecar::start`].
    pub fn start_as(
        self,
        core: usize,
        configuration: impl FnOnce(u16, &Path) -> String,
    ) -> Result<Running, BenchError> {
        let program = self.program()?;
        let folder = Folder::new(self.name())?;
        let address = free_address()?;
        let file = folder.path().join(self.file());
        std::fs::write(&file, configuration(address.port(), folder.path()))?;
        let mut command = Command::new(program);
        command.args(self.arguments(&file, folder.path()));
        let who = format!("{} on core {core}", self.name());
        let says = folder.path().join("says");
        let says_to = File::create(&says)?;
        let mut program = Launched::start_with_processes(who, core, &command, says_to)?;
        if let Err(error) = wait_until_it_accepts(&mut program, address) {
            let said = std::fs::read_to_string(&says).unwrap_or_default();
            return Err(format!("{error}: {}", last_line(&said)).into());
        }
        Ok(Running { program, address, folder })
    }
}

/// The last line that says something.
pub fn last_line(said: &str) -> &str {
    said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it says nothing")
}

/// Where Debian has the administrator's programs, which are not in everybody's path.
fn others() -> impl Iterator<Item = PathBuf> {
    ["/usr/sbin", "/usr/local/sbin"].into_iter().map(PathBuf::from)
}

/// An address at which nobody listens now.
pub fn free_address() -> Result<SocketAddr, BenchError> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

pub fn wait_until_it_accepts(
    program: &mut Launched,
    address: SocketAddr,
) -> Result<(), BenchError> {
    let clock = SystemClock::default();
    let give_up_at = clock.now() + READY_MAX;
    while TcpStream::connect(address).is_err() {
        if program.has_ended() {
            return Err(format!("{} has ended", program.who()).into());
        }
        if clock.now() > give_up_at {
            return Err(format!("{} does not accept connections", program.who()).into());
        }
        std::thread::sleep(RETRY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_names_its_addresses_and_nothing_is_left_open() {
        for sidecar in Sidecar::ALL {
            let text = sidecar.configuration("", 50_001, &[50_002, 50_003], Path::new("/folder"));
            for port in ["50001", "50002", "50003"] {
                assert_eq!(text.matches(port).count(), 1, "{port} in {text}");
            }
            let is_open = |word: &str| word.starts_with('@') && word.ends_with('@');
            let mut words = text.split(|c: char| c.is_whitespace() || ",:;/".contains(c));
            assert!(!words.any(is_open), "{text}");
            assert!(sidecar.shown("").contains(sidecar.file()));
        }
    }

    #[test]
    fn no_proxy_has_more_than_one_worker_or_an_access_log() {
        let has =
            |sidecar: Sidecar, what: &str| assert!(sidecar.shown("").contains(what), "{what}");
        has(Sidecar::Envoy, "--concurrency 1 ");
        has(Sidecar::Nginx, "worker_processes 1;");
        has(Sidecar::Nginx, "access_log off;");
        has(Sidecar::Haproxy, "nbthread 1\n");
        has(Sidecar::Nghttpx, "workers=1\n");
        let logs = |sidecar: Sidecar| sidecar.template().contains("access_log:");
        assert!(!Sidecar::ALL.into_iter().any(logs));
    }

    #[test]
    fn the_last_words_are_told() {
        assert_eq!(last_line("one\n two \n\n"), "two");
        assert_eq!(last_line("\n"), "it says nothing");
    }

    #[test]
    fn what_is_not_installed_is_named_with_its_package() {
        for sidecar in Sidecar::ALL {
            let Some(package) = sidecar.package() else { continue };
            let nowhere = [PathBuf::from("/nonexistent")].into_iter();
            let error = sidecar.installed(package, nowhere).expect_err("nothing is there");
            let error = error.to_string();
            assert!(error.contains(sidecar.name()) && error.contains(package), "{error}");
        }
    }
}
