//! A shown command as a process: run to its end, or started in the background.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{env, thread};

use crate::tools::is_installed;

/// How long a command may take: some build the workspace with optimisations.
const PATIENCE_S: &str = "1200";
/// How long a server may take to print its first line, including its build.
const START: Duration = Duration::from_secs(600);
/// How long it may take to end after SIGTERM.
const END: Duration = Duration::from_secs(60);

/// The folders for commands.
#[derive(Debug)]
pub struct Place {
    /// The current folder.
    pub root: PathBuf,
    /// The folder that comes first in the path.
    pub programs: PathBuf,
}

impl Place {
    /// A shell that runs `script`. Errors are printed to the output, as on a terminal. The shell is
    /// told to end when this process ends, which a signal may do at any time.
    fn shell(&self, program: &str, script: &str) -> Command {
        let mut folders = vec![self.programs.clone()];
        folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", program]);
        if !is_installed("setpriv") {
            command = Command::new(program);
        }
        command.args(if program == "timeout" { &[PATIENCE_S, "bash"][..] } else { &[] });
        command.args(["-c", &format!("exec 2>&1\n{script}")]);
        command.env("PATH", env::join_paths(folders).expect("paths of a path have no colons"));
        command.env("CARGO_TERM_QUIET", "true").env("CARGO_TERM_COLOR", "never");
        command.current_dir(&self.root).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// Runs `command` to its end. Returns its exit status, and the lines that it printed. `status`
    /// is the value of `$?` before.
    pub fn run(&self, command: &str, status: i32) -> Result<(i32, Vec<String>), String> {
        let mut shell = self.shell("timeout", &format!("(exit {status})\n{command}"));
        let output = shell.output().map_err(|error| format!("cannot run bash: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().map(str::to_owned).collect();
        Ok((output.status.code().unwrap_or(-1), lines))
    }

    /// Starts `command` and waits until it has printed a line. Its input stays open, as that of a
    /// terminal at which nobody types: some programs end with their input.
    pub fn start(&self, command: &str) -> Result<Background, String> {
        let mut shell = self.shell("bash", &format!("exec {command}"));
        shell.stdin(Stdio::piped());
        let mut child = shell.spawn().map_err(|error| format!("cannot run bash: {error}"))?;
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            // Sending fails when the receiver was dropped, which is fine.
            lines.for_each(|line| drop(sender.send(line)));
        });
        let mut background = Background { child, lines, printed: Vec::new() };
        match background.lines.recv_timeout(START) {
            Ok(line) => background.printed.push(line),
            Err(_) => return Err("it ended, or printed nothing for too long".into()),
        }
        Ok(background)
    }
}

/// A process that runs until it is told to end. It is killed when this is dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
    lines: Receiver<String>,
    printed: Vec<String>,
}

impl Background {
    /// Sends it SIGTERM if it runs, waits for its end, and returns everything that it has printed.
    pub fn end(mut self) -> Result<Vec<String>, String> {
        let ended = self.child.try_wait().map_err(|error| error.to_string())?.is_some();
        if !ended {
            // The process has not been waited for, so its process id is still its own.
            let number = self.child.id().to_string();
            let status =
                Command::new("bash").args(["-c", &format!("kill -TERM {number}")]).status();
            status.map_err(|error| format!("cannot run bash: {error}"))?;
        }
        loop {
            match self.lines.recv_timeout(END) {
                Ok(line) => self.printed.push(line),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(_) => return Err(format!("it did not end within {} s", END.as_secs())),
            }
        }
        Ok(std::mem::take(&mut self.printed))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Whether `path` is a program of the workspace.
pub fn is_program(programs: &Path, name: &str) -> bool {
    !name.contains('/') && programs.join(name).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_end_with_whoever_started_them() {
        if !is_installed("setpriv") {
            return;
        }
        let place = Place { root: env::temp_dir(), programs: env::temp_dir() };
        for program in ["timeout", "bash"] {
            let mut shell = place.shell(program, "exec timeout 20 yes");
            // A shell would defer the signal; `yes`, once it has printed something, does not. Linux
            // tells a child when the thread that made it ends, so a thread is enough here.
            let starting = thread::spawn(move || {
                let mut child = shell.spawn().unwrap();
                let mut lines = BufReader::new(child.stdout.take().unwrap());
                let mut line = String::new();
                lines.read_line(&mut line).unwrap();
                assert_eq!(line, "y\n");
                (child, lines)
            });
            let (mut child, lines) = starting.join().unwrap();
            // 124 would mean that its time was over.
            assert_ne!(child.wait().unwrap().code(), Some(124));
            drop(lines);
        }
    }
}
