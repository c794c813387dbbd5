//! The server process of the demo.
//!
//! The process always ends. Closing its standard input tells it to end, which also happens if this
//! process dies. If it does not end then, it is killed by its process id.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};

use core::time::Duration;

use petasos_base::Clock;

use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_cli::security::SecurityArgs;
use petasos_cli::transport::TransportArgs;

/// A running `petasos serve`.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    /// Kept open, so that the server can write to it as long as it runs.
    _stdout: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts a server over `transport` with `memory_bytes` for values, and waits until it listens.
    ///
    /// # Errors
    /// If the server cannot be started, or does not begin to listen.
    pub fn start(
        transport: &TransportArgs,
        security: &SecurityArgs,
        memory_bytes: usize,
    ) -> Result<ServerProcess, Failure> {
        let program = std::env::current_exe();
        let program = program.map_err(|e| Failure::new(format!("cannot find myself: {e}")))?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-closes"]);
        command.arg("--memory-max").arg(memory_bytes.to_string());
        command.args(security.words()).args(transport.words());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn();
        let mut child =
            child.map_err(|e| Failure::new(format!("cannot start the server process: {e}")))?;
        let stdout = child.stdout.take().expect("its standard output is piped");
        match await_ready(stdout) {
            Ok((address, stdout)) => {
                let id = child.id();
                output::note(&format!("server: process {id}, listening on {address}"));
                Ok(ServerProcess { child, address, _stdout: stdout })
            }
            Err(failure) => {
                end(&mut child);
                Err(failure)
            }
        }
    }

    /// The address where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds the server's exit status to `failure`, if the server has ended.
    pub fn explain(&mut self, failure: Failure) -> Failure {
        // The end of the connection may be visible shortly before the end of the process.
        match wait_for(&mut self.child, EXPLAIN_TIMEOUT) {
            Some(status) => Failure::with_advice(
                format_args!("the server process {} died: {}", self.child.id(), how(status)),
                format_args!("the client saw: {failure}"),
            ),
            None => failure,
        }
    }

    /// Ends the server, and waits for its end.
    ///
    /// # Errors
    /// If it did not end normally.
    pub fn stop(mut self) -> Result<(), Failure> {
        drop(self.child.stdin.take());
        match wait_for(&mut self.child, STOP_TIMEOUT) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Failure::new(format!("the server ended badly: {}", how(status)))),
            None => Err(Failure::new("the server did not end when told to, and was killed")),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        end(&mut self.child);
    }
}

/// Reads the address from the line that the server prints when it is ready.
fn await_ready(stdout: ChildStdout) -> Result<(SocketAddr, BufReader<ChildStdout>), Failure> {
    let (send, receive) = channel();
    let read = move || {
        let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
        let read = stdout.read_line(&mut line);
        // If sending fails, nobody waits any more, and the server is being killed.
        let _ = send.send(read.map(|_| (line, stdout)));
    };
    let spawned = std::thread::Builder::new().name("petasos-ready".into()).spawn(read);
    spawned.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let advice = "try `petasos serve` by itself to see why";
    match receive.recv_timeout(READY_TIMEOUT) {
        Ok(Ok((line, stdout))) => match parse_ready(&line) {
            Some(address) => Ok((address, stdout)),
            None => Err(Failure::with_advice("the server process did not come up", advice)),
        },
        Ok(Err(error)) => Err(Failure::with_advice(
            format_args!("cannot hear the server process: {error}"),
            advice,
        )),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(Failure::with_advice("the server process says nothing", advice))
        }
    }
}

fn parse_ready(line: &str) -> Option<SocketAddr> {
    line.trim_end().strip_prefix("listening on ")?.parse().ok()
}

/// The child's status if it ends within `timeout`.
fn wait_for(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let clock = Clock::system();
    let deadline = clock.now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if clock.now() < deadline => std::thread::sleep(WAIT_STEP),
            _ => return None,
        }
    }
}

/// Ends the child, by killing it if necessary, and reaps it.
fn end(child: &mut Child) {
    if wait_for(child, END_TIMEOUT).is_none() {
        // If killing fails, the child has just ended.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn how(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("killed by signal {signal}"),
        None => status.to_string(),
    }
}

const READY_TIMEOUT: Duration = Duration::from_secs(10);
const EXPLAIN_TIMEOUT: Duration = Duration::from_millis(300);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const END_TIMEOUT: Duration = Duration::from_millis(500);
const WAIT_STEP: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ready_line_is_one() {
        assert_eq!(parse_ready("listening on [::1]:5\n"), "[::1]:5".parse().ok());
        assert_eq!(parse_ready("petasos: broken\n"), None);
        assert_eq!(parse_ready(""), None);
    }
}
