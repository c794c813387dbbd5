//! The managed service as a program between client and server.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::folder::Folder;
use super::launch::Launched;
use super::sidecars::{Running, free_address, last_line, wait_until_it_accepts};
use crate::error::BenchError;

/// What a service is started with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Its file of policies.
    pub policies: &'static str,
    pub plugin: Option<Plugin>,
    pub transport: Transport,
    /// More of its options.
    pub options: &'static [&'static str],
}

/// A kind of policies that is not built in.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// What policies call it.
    pub name: &'static str,
    /// The name of its file.
    pub file: &'static str,
    /// What is in that.
    pub contents: fn() -> String,
}

/// What calls between hosts go over. Both hosts have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Datagrams,
    Tcp,
    /// libfabric's provider for kernel sockets.
    Fabric,
    /// HTTP/2 and protobuf.
    Grpc,
}

/// Schemas that a service knows when it starts.
#[derive(Clone, Copy, Debug)]
pub enum KnownSchemas<'a> {
    /// Those in a folder, in which it keeps others.
    Kept(&'a Path),
    /// That in a file.
    Loaded(&'a Path),
}

/// No policies.
pub const BARE: Setup =
    Setup { policies: "[]", plugin: None, transport: Transport::Datagrams, options: &[] };
/// A null policy for each application.
pub const NULL: Setup = Setup { policies: r#"[{"application": "*", "kind": "null"}]"#, ..BARE };
/// The same, with calls between hosts over gRPC.
pub const NULL_OVER_GRPC: Setup = Setup { transport: Transport::Grpc, ..NULL };

/// A running service.
pub struct Service {
    pub running: Running,
}

impl Service {
    /// Starts one on a core, and waits until other hosts reach it.
    ///
    /// # Errors
    /// If it was not built, or does not come up.
    pub fn start(core: usize, setup: Setup) -> Result<Service, BenchError> {
        Service::start_with(core, setup, None)
    }

    /// The same, with schemas that it knows.
    ///
    /// # Errors
    /// See [`Service::start`].
    pub fn start_with(
        core: usize,
        setup: Setup,
        schemas: Option<KnownSchemas<'_>>,
    ) -> Result<Service, BenchError> {
        let (program, folder, address) = (program()?, Folder::new("petasosd")?, free_address()?);
        let policies = folder.path().join("policies.json");
        std::fs::write(&policies, setup.policies)?;
        let mut command = Command::new(program);
        command.arg("--socket").arg(folder.path().join("socket"));
        if let Some(Plugin { name, file, contents }) = setup.plugin {
            let path = folder.path().join(file);
            std::fs::write(&path, contents())?;
            command.arg("--plugin").arg(format!("{name}={}", path.display()));
        }
        command.arg("--policies").arg(policies).args(setup.transport.options());
        command.arg(address.to_string()).args(setup.options);
        match schemas {
            None => {}
            Some(KnownSchemas::Kept(folder)) => _ = command.arg("--schema-cache").arg(folder),
            Some(KnownSchemas::Loaded(file)) => _ = command.arg("--prefetch").arg(file),
        }
        let says = folder.path().join("says");
        let who = format!("petasosd on core {core}");
        let mut program = Launched::start(who, core, &command, File::create(&says)?)?;
        if let Err(error) = wait_until_it_accepts(&mut program, address) {
            let said = std::fs::read_to_string(&says).unwrap_or_default();
            return Err(format!("{error}: {}", last_line(&said)).into());
        }
        Ok(Service { running: Running { program, address, folder } })
    }

    /// Where applications attach, as they are told.
    pub fn path(&self) -> String {
        format!("unix:{}/socket", self.running.folder.path().display())
    }

    /// Where operators connect.
    pub fn admin(&self) -> PathBuf {
        self.running.folder.path().join("admin.sock")
    }

    /// Where other hosts call its applications.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }
}

/// The daemon, which is built beside this program.
fn program() -> Result<PathBuf, BenchError> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name("petasosd");
    match program.is_file() {
        true => Ok(program),
        false => Err("petasosd is not built: `cargo build --release -p petasosd`".into()),
    }
}

impl Transport {
    /// Options of a service that others reach by it. The address follows.
    fn options(self) -> &'static [&'static str] {
        match self {
            Transport::Datagrams => &["--listen"],
            Transport::Tcp => &["--transport", "tcp", "--listen"],
            Transport::Fabric => &["--transport", "fabric", "--provider", "udp", "--listen"],
            // As long as all others of a figure take.
            Transport::Grpc => &["--grpc-message-bytes", "16777216", "--listen-grpc"],
        }
    }
}

impl Setup {
    /// The command and the policies.
    pub fn shown(self) -> String {
        let plugin = self.plugin.map_or(String::new(), |Plugin { name, file, .. }| {
            format!(" --plugin {name}=FOLDER/{file}")
        });
        let options: String = self.options.iter().map(|option| format!(" {option}")).collect();
        let listen = self.transport.options().join(" ");
        format!(
            "$ petasosd --socket FOLDER/socket{plugin}{options} --policies FOLDER/policies.json \
             {listen} 127.0.0.1:50001\n\n{}\n",
            self.policies
        )
    }
}
