//! Processes, and the client's side of RESP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// A test fails rather than waits for ever.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A process that is killed at the end, by its id.
pub struct Process(Child);

impl Process {
    pub fn start(command: &mut Command) -> Process {
        Process(command.spawn().expect("the program starts"))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is our child").is_some()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// The first line that it says.
    pub fn first_line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.take().expect("it was piped");
        let mut out = BufReader::new(out);
        out.read_line(&mut line).expect("it is text");
        self.0.stdout = Some(out.into_inner());
        line
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}: not after 30 s");
}

/// A connection to a server, or to an adapter.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(to: SocketAddr) -> Client {
        Client::try_connect(to).expect("somebody listens")
    }

    pub fn try_connect(to: SocketAddr) -> std::io::Result<Client> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // A server that has closed is found out by who reads.
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// One reply, as its bytes; what is left of it if the connection ends.
    pub fn reply(&mut self) -> Vec<u8> {
        let (mut reply, mut values) = (Vec::new(), 1_i64);
        while values > 0 {
            values -= 1;
            let begin = reply.len();
            if self.stream.read_until(b'\n', &mut reply).unwrap_or(0) == 0 {
                return reply;
            }
            let line = String::from_utf8_lossy(&reply[begin + 1..]).trim().to_owned();
            match reply[begin] {
                b'$' if line != "-1" => {
                    let mut string = vec![0; line.parse::<usize>().expect("a length") + 2];
                    self.stream.read_exact(&mut string).expect("the reply is whole");
                    reply.extend(string);
                }
                b'*' => values += line.parse::<i64>().expect("a count").max(0),
                _ => {}
            }
        }
        reply
    }

    /// Runs a command of words.
    pub fn run(&mut self, command: &str) -> String {
        self.send(&array(&command.split(' ').collect::<Vec<_>>()));
        String::from_utf8_lossy(&self.reply()).trim_end().to_owned()
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

pub fn array(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
    bytes.into_bytes()
}

/// A server, which is a worker of a group if it has the module.
pub struct Node {
    pub process: Process,
    pub address: SocketAddr,
}

impl Node {
    /// Starts a server; with port 0 there is none of the system's choice, so it tries some.
    pub fn start(folder: &Path, options: &[&str]) -> Node {
        for _ in 0..20 {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
            let address = listener.and_then(|it| it.local_addr()).expect("loopback has ports");
            // Somebody else may take the port meanwhile: the server ends then.
            if let Some(node) = Node::start_at(folder, address, options) {
                return node;
            }
        }
        panic!("redis-server did not start at 20 ports");
    }

    pub fn start_at(folder: &Path, address: SocketAddr, options: &[&str]) -> Option<Node> {
        std::fs::create_dir_all(folder).expect("a folder can be made");
        let mut command = Command::new("redis-server");
        command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--dir"]).arg(folder);
        command.args(["--repl-diskless-sync-delay", "0", "--logfile", "log"]).args(options);
        let process = Process::start(command.stdout(Stdio::null()));
        let mut node = Node { process, address };
        loop {
            if node.process.has_ended() {
                return None;
            }
            // Whoever answers may be another process.
            let id = format!("process_id:{}\r", node.process.id());
            let info = Client::try_connect(address).map(|mut it| it.run("INFO server"));
            if info.is_ok_and(|info| info.contains(&id)) {
                return Some(node);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn run(&self, command: &str) -> String {
        self.client().run(command)
    }

    /// A field of what the module says of itself.
    pub fn status(&self, field: &str) -> String {
        let said = self.run("PETASOS.STATUS");
        let lines: Vec<_> = said.lines().collect();
        let at = lines.iter().position(|line| *line == field).expect("the field is there");
        let value = lines[at + 1];
        // A bulk string has its length before it.
        match value.strip_prefix(':') {
            Some(number) => number.to_owned(),
            None => lines[at + 2].to_owned(),
        }
    }

    pub fn count(&self, field: &str) -> u64 {
        self.status(field).parse().expect("a number")
    }
}

/// A folder of this test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("redis-{test}"));
    // What an earlier run has left.
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Whether what tests need is there; says so if not.
pub fn has_all() -> bool {
    let programs = [("cc", "--version"), ("redis-server", "--version"), ("redis-cli", "--version")];
    for (program, option) in programs {
        if Command::new(program).arg(option).output().is_err() {
            petasos_skips::skip(program, format!("{program} is not installed"));
            return false;
        }
    }
    if !router_program().is_file() {
        petasos_skips::skip("petasos-router", "not built: cargo build -p petasos-router-program");
        return false;
    }
    true
}

pub fn router_program() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_petasos-redis-adapter")).with_file_name("petasos-router")
}

/// The module, compiled once.
pub fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| {
        // The crate is linked so that cargo makes the shared library, too.
        assert!(petasos_capi::petasos_abi_version() >= 4);
        let executable = std::env::current_exe().expect("the test has a path");
        let library = executable.with_file_name("libpetasos_capi.so");
        assert!(library.exists(), "cargo has not made {}", library.display());
        let folder = folder(&format!("module-{}", std::process::id()));
        petasos_redis::build_module(&library, &folder).expect("it compiles")
    })
}
