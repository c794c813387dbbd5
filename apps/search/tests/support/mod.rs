//! Running the program, and asking it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

const SEARCH: &str = env!("CARGO_BIN_EXE_search");
/// Longer than anything that works takes, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a process left behind.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn success(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }
}

/// Runs the program to its end.
pub fn search(arguments: &[&str]) -> Finished {
    let mut command = Command::new(SEARCH);
    command.args(arguments).env_remove("PETASOS_SERVICE").stdin(Stdio::null());
    let output = command.output().expect("it was just built");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Finished { code: output.status.code(), stdout, stderr }
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A process that runs as long as this.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Where it serves.
    pub addresses: Vec<String>,
}

impl Process {
    /// A server of the application.
    pub fn serve(options: &[&str]) -> Process {
        let mut command = Command::new(SEARCH);
        command.args(["serve", "--attended"]).args(options).env_remove("PETASOS_SERVICE");
        let mut process = Process::start(command);
        let line = process.line();
        let addresses = line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line}"));
        process.addresses = addresses.split(' ').map(str::to_owned).collect();
        process
    }

    fn start(mut command: Command) -> Process {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it is built");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map(|line| tell.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Process { child, input, lines, addresses: Vec::new() }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it says something")
    }

    /// What it answers to a line.
    pub fn ask(&mut self, line: &str) -> String {
        let input = self.input.as_mut().expect("it is open until the end");
        writeln!(input, "{line}").expect("it reads its input");
        self.line()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        // It may have ended with its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A router of a service, and its address; none if it was not built.
pub fn router(service: &str) -> Option<(Process, String)> {
    let program = Path::new(SEARCH).with_file_name("petasos-router");
    if !program.is_file() {
        let how = "not built: cargo build -p petasos-router-program";
        petasos_skips::skip("petasos-router", how);
        return None;
    }
    let mut command = Command::new(program);
    command.args(["--listen", "127.0.0.1:0", "--service", service]);
    let process = Process::start(command);
    loop {
        let line = process.line();
        if let Some((_, rest)) = line.split_once("join at ") {
            let (address, _) = rest.split_once(',').expect("it says where");
            return Some((process, address.to_owned()));
        }
    }
}

/// The status and the JSON of an answer over HTTP.
pub fn get(server: &str, query: &str) -> (u16, Value) {
    let mut path = "/search?q=".to_owned();
    for byte in query.bytes() {
        path += &format!("%{byte:02x}");
    }
    let mut stream = TcpStream::connect(server).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a time");
    let request = format!("GET {path} HTTP/1.1\r\nhost: search\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it has a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("it has a status"), json(body))
}
