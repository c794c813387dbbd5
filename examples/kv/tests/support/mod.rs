//! Runs the program that `crate::PROGRAM` names, and ends its processes. The tests of other
//! examples use this, too.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use petasos::{Channel, block_on};
use petasos_reflection::client::Conversation;
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any working operation takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The results of a process.
#[derive(Debug)]
pub struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Finished {
    pub fn success(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }

    pub fn failure(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        &self.stderr
    }

    /// What it prints for an invalid command line.
    pub fn usage(&self) -> &str {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert!(self.stderr.starts_with("usage: "), "{self:?}");
        &self.stderr
    }
}

/// The services that a server lists by reflection.
pub fn services(address: &str) -> Vec<String> {
    let services = block_on(async {
        let channel = Channel::connect(address).await.expect("it listens");
        let told = Conversation::begin(&channel).await;
        told.expect("it tells its schema").1
    });
    services.into_iter().filter(|name| !name.starts_with("grpc.reflection.")).collect()
}

/// A process that is killed when this is dropped.
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

/// Runs a command to its end.
pub fn run(arguments: &[&str]) -> Finished {
    Process::start(arguments).finish()
}

impl Process {
    pub fn start(arguments: &[&str]) -> Process {
        let mut command = Command::new(crate::PROGRAM);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was just built");
        let stdin = child.stdin.take();
        let stdout = lines_of(child.stdout.take().expect("it is piped"));
        let stderr = lines_of(child.stderr.take().expect("it is piped"));
        Process { child, stdin, stdout, stderr }
    }

    /// Starts a server. Returns its addresses for datagrams and for gRPC.
    pub fn serve() -> (Process, [String; 2]) {
        let mut server = Process::start(&["serve", "127.0.0.1:0", "127.0.0.1:0"]);
        let addresses = [(); 2].map(|()| server.address());
        (server, addresses)
    }

    /// The address on which a server says that it listens.
    pub fn address(&mut self) -> String {
        let line = self.line();
        line.strip_prefix("listening on ").expect("it says where").to_owned()
    }

    /// The next line of its output.
    pub fn line(&mut self) -> String {
        let line = self.stdout.recv_timeout(PATIENCE).expect("another line comes");
        line.trim_end().to_owned()
    }

    /// Sends it a line.
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        writeln!(stdin, "{line}").expect("it reads its input");
    }

    /// Sends it a line repeatedly until it prints a line with this beginning.
    pub fn say_until(&mut self, line: &str, wanted: &str) {
        // Many more than all buffers on the way hold.
        for _ in 0..100_000 {
            self.say(line);
            while let Ok(heard) = self.stdout.try_recv() {
                if heard.starts_with(wanted) {
                    return;
                }
            }
        }
        panic!("`{wanted}` does not come");
    }

    pub fn terminate(&self) {
        let id = i32::try_from(self.child.id()).expect("ids of processes are small");
        let id = Pid::from_raw(id).expect("it is not 0");
        kill_process(id, Signal::TERM).expect("it is a process of ours");
    }

    /// Closes its input, and waits until it has ended.
    pub fn finish(mut self) -> Finished {
        drop(self.stdin.take());
        let rest = |lines: &Receiver<String>| {
            let mut text = String::new();
            loop {
                match lines.recv_timeout(PATIENCE) {
                    Ok(line) => text += &line,
                    Err(RecvTimeoutError::Disconnected) => return text,
                    Err(timeout) => panic!("still running after {text:?}: {timeout}"),
                }
            }
        };
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        // Its pipes are closed, so it has ended or is about to.
        let code = self.child.wait().expect("it is our child").code();
        Finished { code, stdout, stderr }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of `from`, read on a separate thread so that waiting for them can be bounded.
fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = String::new();
        while from.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if tell.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    lines
}
