//! Processes of the tests: routers, and the tests' own program as a worker.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// A child that is killed when the test ends.
pub struct Process {
    pub child: Child,
    /// The line that says that it is ready.
    pub ready: String,
    /// What it has said before.
    pub first: Vec<String>,
    said: Option<JoinHandle<Vec<String>>>,
}

impl Process {
    pub fn start(mut command: Command, ready: &str) -> Process {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut child = child.expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut lines = lines.map_while(Result::ok);
        let mut first: Vec<String> = Vec::new();
        let ready = loop {
            let line = lines.next().expect("it says that it is ready");
            match line.contains(ready) {
                true => break line,
                false => first.push(line),
            }
        };
        // What it says later is read, so that it does not wait.
        let said = std::thread::spawn(move || lines.collect());
        Process { child, ready, first, said: Some(said) }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Kills it, and returns what it has said since it was ready.
    pub fn end(mut self) -> Vec<String> {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let said = self.said.take().expect("it is taken once");
        said.join().expect("reading does not panic")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A router, and its control address.
pub fn router(arguments: &[&str]) -> (Process, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
    command.args(arguments);
    let process = Process::start(command, "ready");
    let address = process.ready.split("join at ").nth(1).expect("it says where");
    let address = address.split(',').next().expect("it says where").parse().expect("an address");
    (process, address)
}
