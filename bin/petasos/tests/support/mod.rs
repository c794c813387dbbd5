//! Running the real program under a watchdog.
//!
//! Every process started here is killed, by its own id, when its guard is dropped, and after
//! [`WATCHDOG`] in any case.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use petasos_base::Clock;
use rustix::process::{Pid, Signal, kill_process};

/// The program of the package that the test belongs to: `petasos dashboard` is one of its own.
const PROGRAM: &str = match option_env!("CARGO_BIN_EXE_petasos") {
    Some(program) => program,
    None => match option_env!("CARGO_BIN_EXE_petasos-dashboard") {
        Some(program) => program,
        None => panic!("no other package has these tests"),
    },
};

/// Longer than anything takes that works, also on a machine that is busy.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// What a process left behind.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The one line that a failure prints.
    pub fn failure(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        let mut lines = self.stderr.lines().filter(|line| line.starts_with("petasos: "));
        let line = lines.next_back().unwrap_or_else(|| panic!("no failure in {self:?}"));
        assert!(line.contains(';') || line.contains("WRONG DATA"), "no advice: {line}");
        line
    }

    pub fn success(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }
}

/// A running `petasos`, or `petasos dashboard`.
pub struct Petasos {
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: Receiver<String>,
    stdout: Receiver<String>,
    /// Lines of standard error that were read already.
    heard: String,
}

impl Petasos {
    pub fn start(args: &[&str]) -> Petasos {
        Petasos::start_with(args, &[])
    }

    /// The same, with variables of the environment.
    pub fn start_with(args: &[&str], variables: &[(&str, &str)]) -> Petasos {
        let mut command = Command::new(PROGRAM);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(std::env::temp_dir()).envs(variables.iter().copied());
        let mut child = command.spawn().expect("the program was just built");
        let stdout = lines_of(child.stdout.take().expect("piped"));
        let stderr = lines_of(child.stderr.take().expect("piped"));
        let stdin = child.stdin.take();
        Petasos { child, stdin, stderr, stdout, heard: String::new() }
    }

    pub fn send(&self, signal: Signal) {
        signal_to(self.child.id(), signal);
    }

    /// Writes to its standard input and closes it.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut stdin = self.stdin.take().expect("it is fed once");
        stdin.write_all(bytes).expect("it reads its input");
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for a line on standard error that begins with `prefix`, and returns the rest of it.
    pub fn hear(&mut self, prefix: &str) -> String {
        loop {
            let line = self.stderr.recv_timeout(WATCHDOG);
            let line = line.unwrap_or_else(|_| panic!("no `{prefix}` in {}", self.heard));
            self.heard += &line;
            if let Some(rest) = line.strip_prefix(prefix) {
                return rest.trim_end().to_owned();
            }
        }
    }

    /// Waits for the next line on standard output.
    pub fn line(&mut self) -> String {
        let line = self.stdout.recv_timeout(WATCHDOG);
        let line = line.unwrap_or_else(|_| panic!("no more lines: {}", self.heard));
        line.trim_end().to_owned()
    }

    /// Waits for its end.
    pub fn finish(self) -> Finished {
        self.finish_within(WATCHDOG)
    }

    pub fn finish_within(mut self, timeout: Duration) -> Finished {
        self.close_stdin();
        let status = self.wait(timeout);
        let rest = |receiver: &Receiver<String>| receiver.iter().collect::<String>();
        let stderr = core::mem::take(&mut self.heard) + &rest(&self.stderr);
        Finished { code: status.code(), stdout: rest(&self.stdout), stderr }
    }

    fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let clock = Clock::system();
        let deadline = clock.now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(clock.now() < deadline, "still running after {timeout:?}: {}", self.heard);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Petasos {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal_to(id: u32, signal: Signal) {
    let pid = Pid::from_raw(id as i32).expect("process ids are positive");
    kill_process(pid, signal).expect("the process is ours");
}

/// Lines as they come; closed at the end of `stream`.
fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match stream.read_until(b'\n', &mut line) {
                Ok(read) if read > 0 => {
                    if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    });
    receive
}

/// Runs the program to its end.
pub fn petasos(args: &[&str]) -> Finished {
    Petasos::start(args).finish()
}

/// A running `petasos serve`.
pub struct Server {
    pub process: Petasos,
    pub address: String,
}

impl Server {
    pub fn start(more: &[&str]) -> Server {
        Server::start_at("127.0.0.1:0", more)
    }

    pub fn start_at(listen: &str, more: &[&str]) -> Server {
        let args = [&["serve", "--listen", listen], more].concat();
        let process = Petasos::start(&args);
        let line = process.stdout.recv_timeout(WATCHDOG).expect("a server says where it listens");
        let address = line.trim_end().strip_prefix("listening on ").expect("the ready line");
        assert!(address.parse::<SocketAddr>().is_ok(), "{address}");
        Server { address: address.to_owned(), process }
    }

    pub fn call(&self, args: &[&str]) -> Finished {
        petasos(&[&["raw", &self.address], args].concat())
    }

    /// One of the server's figures.
    pub fn figure(&self, name: &str) -> u64 {
        self.figure_over(name, &[])
    }

    /// The same, asked with these options.
    pub fn figure_over(&self, name: &str, options: &[&str]) -> u64 {
        let answer = self.call(&[&["stats"], options].concat());
        let text = answer.success();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {text}"))
    }

    /// Asks for a figure until `fits`.
    pub fn await_figure(&self, name: &str, fits: impl Fn(u64) -> bool) {
        self.await_figure_over(name, &[], fits);
    }

    /// The same, asked with these options.
    pub fn await_figure_over(&self, name: &str, options: &[&str], fits: impl Fn(u64) -> bool) {
        let clock = Clock::system();
        let deadline = clock.now() + WATCHDOG;
        loop {
            let value = self.figure_over(name, options);
            if fits(value) {
                return;
            }
            assert!(clock.now() < deadline, "{name} stays at {value}");
        }
    }
}

/// A folder of the test's own, removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("petasos-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("the folder is ours");
        path
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("the name is ASCII").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
