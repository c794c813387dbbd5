//! Workers that are killed, and what they have run.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use super::WORKER_CORE;
use crate::error::BenchError;
use crate::router::part_args::PartName;
use crate::router::programs::part_command;

/// The mean of the exponential times that workers sleep, so that a kill meets calls that run.
const MEAN_NS: u64 = 1_000_000;
/// How long a worker may take to start.
const READY_MAX: Duration = Duration::from_secs(30);

/// A process with one worker.
pub struct Worker {
    child: Child,
    said: Option<JoinHandle<Vec<String>>>,
}

/// How often each numbered call was run.
#[derive(Debug, Default)]
pub struct Ran(HashMap<String, u64>);

impl Worker {
    /// Starts one, and waits until all routers give it requests.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn start(routers: &[SocketAddr]) -> Result<Worker, BenchError> {
        let options = [
            ("--service", "exponential".to_owned()),
            ("--mean-ns", MEAN_NS.to_string()),
            ("--tells", "true".to_owned()),
        ];
        let mut command = part_command(PartName::Workers, WORKER_CORE, &options, routers)?;
        // It ends with its input, whoever ends that.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let (tell, is_ready) = channel();
        let said = std::thread::spawn(move || {
            let mut lines = lines.map_while(Result::ok);
            let _ = tell.send(lines.next().is_some_and(|line| line.starts_with("ready")));
            lines.collect()
        });
        let worker = Worker { child, said: Some(said) };
        match is_ready.recv_timeout(READY_MAX) {
            Ok(true) => Ok(worker),
            _ => Err("a worker does not start".into()),
        }
    }

    /// Lets it end in order: it leaves its group, and ends what it has. Returns what it has said.
    ///
    /// # Errors
    /// If it does not.
    pub fn end(mut self) -> Result<Vec<String>, BenchError> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        self.said()
    }

    fn said(&mut self) -> Result<Vec<String>, BenchError> {
        let said = self.said.take().expect("it is taken once");
        said.join().map_err(|_| "a worker said nonsense".into())
    }

    /// SIGKILL. Returns what it has said.
    ///
    /// # Errors
    /// The system's.
    pub fn kill(mut self) -> Result<Vec<String>, BenchError> {
        self.child.kill()?;
        self.child.wait()?;
        self.said()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Ran {
    /// Adds what a worker has said.
    pub fn add(&mut self, said: Vec<String>) {
        for line in said {
            if let Some(what) = line.strip_prefix("ran ") {
                *self.0.entry(what.to_owned()).or_default() += 1;
            }
        }
    }

    /// How often a call was run.
    pub fn times(&self, number: &str) -> u64 {
        self.0.get(number).copied().unwrap_or_default()
    }

    /// How many calls were run more than once.
    pub fn twice(&self) -> usize {
        self.0.values().filter(|times| **times > 1).count()
    }
}
