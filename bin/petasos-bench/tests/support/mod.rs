//! Running the real program under a watchdog.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The program.
pub const BENCH: &str = env!("CARGO_BIN_EXE_petasos-bench");

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
    pub fn success(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }
}

/// Runs the program to its end.
pub fn bench(args: &[&str]) -> Finished {
    let mut command = Command::new(BENCH);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir(std::env::temp_dir());
    let child = command.spawn().expect("the program was just built");
    let id = Pid::from_child(&child);
    let (send, receive) = channel();
    std::thread::spawn(move || send.send(child.wait_with_output()));
    let Ok(output) = receive.recv_timeout(WATCHDOG) else {
        kill_process(id, Signal::KILL).expect("it is our child");
        panic!("{args:?} still runs after {WATCHDOG:?}");
    };
    let output = output.expect("its output is piped");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Finished {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}
