//! A process of the measurement in its own network namespace.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use petasos_base::sync::{AtomicBool, Ordering};

use crate::error::BenchError;
use crate::network::leave_host;

/// A process that this one has started. Dropping this ends it.
pub struct Host {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Host {
    /// Starts a process with these arguments, and waits until it has entered its namespace.
    pub fn start(arguments: &[String]) -> Result<Host, BenchError> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a process: {error}"))?;
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("the process has no output")?);
        let mut host = Host { child, commands, answers };
        host.hear_after("apart")?;
        Ok(host)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) -> Result<(), BenchError> {
        let commands = self.commands.as_mut().ok_or("the process has been told to end")?;
        writeln!(commands, "{line}").map_err(|_| "a process of the measurement has died".into())
    }

    /// Reads the next line, which must begin with `prefix`, and returns the rest.
    pub fn hear_after(&mut self, prefix: &str) -> Result<String, BenchError> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a process of the measurement has failed; see above".into());
        }
        let rest = line.trim_end().strip_prefix(prefix);
        Ok(rest.ok_or_else(|| format!("`{}` instead of `{prefix}`", line.trim_end()))?.to_owned())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The process ends with its input. If it does not, kill it: it is our own child.
        drop(self.commands.take());
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The process's side of the pipe: enters a new namespace, and returns the words after `joined`.
pub fn join() -> Result<Vec<String>, BenchError> {
    leave_host()?;
    say("apart")?;
    let line = hear()?;
    let words = line.strip_prefix("joined ").ok_or("the switch has not joined this process")?;
    Ok(words.split(' ').map(str::to_owned).collect())
}

/// Prints a line for the parent process.
pub fn say(line: &str) -> Result<(), BenchError> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// Reads the next line from the parent process.
pub fn hear() -> Result<String, BenchError> {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line)? == 0 {
        return Err("the process that started this one has ended".into());
    }
    Ok(line.trim_end().to_owned())
}

/// Ends this process when its parent has ended. From now on, nothing else may read the input. The
/// returned flag is set when another line arrives.
pub fn end_with_input() -> Arc<AtomicBool> {
    let asked = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&asked);
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            raised.store(true, Ordering::Relaxed);
        }
        std::process::exit(1);
    });
    asked
}
