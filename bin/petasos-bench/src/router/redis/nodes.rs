//! Servers of Redis with replication, with or without a router before them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use petasos_base::SystemClock;

use crate::error::BenchError;
use crate::managed::folder::Folder;
use crate::managed::launch::Launched;
use crate::managed::sidecars::last_line;
use crate::router::programs::{ROUTER_CORE, Router};
use crate::rpc::process::cpu_s_of;

/// Keys that requests ask for.
pub const KEYS: usize = 1000;
/// As in the paper's workload: keys of 19 bytes, values of 2.
const VALUE: &str = "v1";
/// How long all nodes may take until they are in step.
const READY_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);
/// Somebody else may take a port that was free.
const PORTS_TRIED: usize = 10;
/// The most that is read of a reply.
const REPLY_BYTES: usize = 64 << 10;

/// A primary, its replicas, and their router.
pub struct Nodes {
    // Ends before its router does.
    programs: Vec<Launched>,
    /// The primary's is the first.
    pub addresses: Vec<SocketAddr>,
    pub router: Option<Router>,
    _folder: Folder,
}

/// A key by its number.
pub fn key(number: usize) -> String {
    format!("user:{number:014}")
}

/// A command as an array of bulk strings.
pub fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
    bytes.into_bytes()
}

/// Reads and writes of a key.
pub fn commands(number: usize) -> [Vec<u8>; 2] {
    let key = key(number);
    [command(&["GET", &key]), command(&["SET", &key, VALUE])]
}

impl Nodes {
    /// Starts so many nodes, all on one core, and waits until they are in step.
    ///
    /// # Errors
    /// If Redis is not installed, the module cannot be compiled, or a node does not come up.
    pub fn start(count: usize, policy: Option<&str>) -> Result<Nodes, BenchError> {
        let folder = Folder::new("redis")?;
        let service = ["--service", "petasos.redis.v1.Redis"];
        let router = policy.map(|policy| Router::of(policy, &service)).transpose()?;
        let module = match &router {
            Some(_) => Some(petasos_redis::build_module(&library()?, folder.path())?),
            None => None,
        };
        let mut nodes =
            Nodes { programs: Vec::new(), addresses: Vec::new(), router, _folder: folder };
        for number in 0..count {
            nodes.add(number, module.as_ref())?;
        }
        nodes.fill()?;
        Ok(nodes)
    }

    fn add(&mut self, number: usize, module: Option<&PathBuf>) -> Result<(), BenchError> {
        for _ in 0..PORTS_TRIED {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let says = self._folder.path().join(format!("says-{number}"));
            let mut command = Command::new("redis-server");
            command.args(["--port", &free.port().to_string(), "--bind", "127.0.0.1"]);
            command.args(["--save", "", "--repl-diskless-sync-delay", "0"]);
            command.arg("--dir").arg(self._folder.path());
            if let Some(primary) = self.addresses.first() {
                command.args(["--replicaof", "127.0.0.1", &primary.port().to_string()]);
            }
            if let (Some(module), Some(router)) = (module, &self.router) {
                command.arg("--loadmodule").arg(module);
                command.args(["group", &format!("router://{}", router.address)]);
                command.args(["listen", "127.0.0.1:0", "bound", "512"]);
            }
            let who = format!("redis-server {number}");
            let program = Launched::start(who, ROUTER_CORE, &command, File::create(&says)?)?;
            if self.wait_for(program, free, module.is_some())? {
                return Ok(());
            }
            let said = std::fs::read_to_string(&says).unwrap_or_default();
            if !said.contains("Address already in use") {
                let why = last_line(&said);
                return Err(format!("redis-server (Debian: redis-server) ends: {why}").into());
            }
        }
        Err("redis-server finds no free port".into())
    }

    /// Whether the program serves at the address, and is in step and a member. False if it ends.
    fn wait_for(
        &mut self,
        mut program: Launched,
        address: SocketAddr,
        joins: bool,
    ) -> Result<bool, BenchError> {
        let clock = SystemClock::default();
        let give_up_at = clock.now() + READY_MAX;
        let id = format!("process_id:{}\r", program.id());
        loop {
            if program.has_ended() {
                return Ok(false);
            }
            let info = ask(address, &["INFO"]).unwrap_or_default();
            let in_step = self.addresses.is_empty() || info.contains("master_link_status:up");
            let joined = !joins || {
                let status = ask(address, &["PETASOS.STATUS"]).unwrap_or_default();
                status.contains("\r\nmember\r\n")
            };
            if info.contains(&id) && in_step && joined {
                self.programs.push(program);
                self.addresses.push(address);
                return Ok(true);
            }
            if clock.now() > give_up_at {
                return Err(format!("{} does not get in step", program.who()).into());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Sets all keys, and waits until all nodes have them.
    fn fill(&self) -> Result<(), BenchError> {
        let mut primary = TcpStream::connect(self.addresses[0])?;
        for number in 0..KEYS {
            primary.write_all(&commands(number)[1])?;
        }
        let expected = format!(":{KEYS}\r\n");
        let clock = SystemClock::default();
        let give_up_at = clock.now() + READY_MAX;
        while !self.addresses.iter().all(|node| ask(*node, &["DBSIZE"]).as_ref() == Ok(&expected)) {
            if clock.now() > give_up_at {
                return Err("replicas do not follow".into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Processor time of all nodes and of the router so far, in seconds.
    pub fn cpu_s(&self) -> f64 {
        let nodes = self.programs.iter().filter_map(|program| cpu_s_of(program.id()));
        nodes.sum::<f64>() + self.router.as_ref().map_or(0.0, Router::cpu_s)
    }
}

/// A short reply; its first bytes, as text.
fn ask(node: SocketAddr, words: &[&str]) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(node)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        // The server closes behind the reply, which is then whole.
        stream.write_all(&[command(words), command(&["QUIT"])].concat())?;
        let mut reply = Vec::new();
        stream.take(REPLY_BYTES as u64).read_to_end(&mut reply)?;
        let reply = reply.strip_suffix(b"+OK\r\n").unwrap_or(&reply);
        Ok(String::from_utf8_lossy(reply).into_owned())
    };
    ask().map_err(|error| error.to_string())
}

/// The C library, which is built beside this program, or for tests of it.
fn library() -> Result<PathBuf, BenchError> {
    let program = std::env::current_exe()?;
    let places = ["libpetasos_capi.so", "deps/libpetasos_capi.so"];
    let mut places = places.iter().map(|place| program.with_file_name(place));
    let found = places.find(|place| place.is_file());
    let none = || "libpetasos is not built: `cargo build --release -p petasos-capi`".into();
    found.ok_or_else(none)
}
