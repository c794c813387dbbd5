//! The commands of one file, in order. Servers run until the end of the file.

use std::path::Path;

use super::built::built;
use super::compare::compare;
use super::parse::Shown;
use super::process::{Background, Place};

/// The state of one file.
#[derive(Debug)]
pub struct Session {
    place: Place,
    path: String,
    /// The exit status of the last command, for `$?`.
    status: i32,
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    line: usize,
    command: String,
    shown: Vec<String>,
    process: Background,
}

impl Session {
    /// `path` is used in messages.
    pub fn new(root: &Path, programs: &Path, path: &str) -> Session {
        let place = Place { root: root.to_owned(), programs: programs.to_owned() };
        Session { place, path: path.to_owned(), status: 0, servers: Vec::new() }
    }

    /// Runs a command and compares its output. A server, or a command marked as such, is started
    /// and compared at the end.
    pub fn run(&mut self, shown: &Shown, in_background: bool) -> Result<(), String> {
        let command = &shown.command;
        println!("$ {command}");
        let line = built(&self.place.programs, command);
        let line = line.as_ref().unwrap_or(command);
        if in_background || serves(command) {
            let process = self.place.start(line);
            let process = process.map_err(|error| self.at(shown.line, command, &error))?;
            let (line, command, shown) = (shown.line, command.clone(), shown.output.clone());
            self.servers.push(Server { line, command, shown, process });
            return Ok(());
        }
        let (status, printed) = self.place.run(line, self.status)?;
        self.status = status;
        let compared = compare(&shown.output, &printed);
        compared.map_err(|error| self.at(shown.line, command, &quoted(&error, &printed)))?;
        if status != 0 && !shows_failure(shown) {
            let error = format!("exit status {status}, but no message of a failure is shown");
            return Err(self.at(shown.line, command, &error));
        }
        Ok(())
    }

    /// Ends the servers, in the order in which they were started, and compares what they printed.
    pub fn finish(&mut self) -> Result<(), String> {
        for server in std::mem::take(&mut self.servers) {
            let Server { line, command, shown, process } = server;
            let printed = process.end().map_err(|error| self.at(line, &command, &error))?;
            let compared = compare(&shown, &printed);
            compared.map_err(|error| self.at(line, &command, &quoted(&error, &printed)))?;
        }
        Ok(())
    }

    fn at(&self, line: usize, command: &str, error: &str) -> String {
        format!("{}:{line}: `{command}`: {error}", self.path)
    }
}

/// The difference, and the whole output.
fn quoted(error: &str, printed: &[String]) -> String {
    format!("not what is shown\n{error}\n---- printed ----\n{}\n----", printed.join("\n"))
}

/// Whether a command line has the subcommand `serve`, before any comment.
fn serves(command: &str) -> bool {
    let words = command.split_whitespace();
    words.take_while(|word| !word.starts_with('#')).any(|word| word == "serve")
}

/// Whether the last shown line is a program's error message, `NAME: …`.
fn shows_failure(shown: &Shown) -> bool {
    let last = shown.output.last().map_or("", String::as_str);
    let name = last.split(':').next().unwrap_or_default();
    shown.command.split_whitespace().any(|word| word == name)
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
