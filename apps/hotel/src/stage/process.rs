//! Child processes.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use petasos_base::SystemClock;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::error::Error;

/// How long a program may take until it is there.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long a program may take to end when it is told to.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// What a program is started with.
#[derive(Debug, Default)]
pub struct Start<'a> {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The process in whose network namespace it runs, if that is another.
    pub network_of: Option<u32>,
    /// Whether it gets a network namespace of its own.
    pub own_network: bool,
    /// The user who runs it, if that is another.
    pub user: Option<&'a str>,
    pub environment: Vec<(&'static str, String)>,
}

impl Start<'_> {
    /// A program with these arguments.
    pub fn of<W: Into<OsString>>(program: &Path, words: impl IntoIterator<Item = W>) -> Self {
        let command = [program.into()].into_iter().chain(words.into_iter().map(Into::into));
        Start { command: command.collect(), ..Start::default() }
    }

    fn launcher(&self) -> Result<Command, Error> {
        let own = std::env::current_exe().map_err(|error| Error::internal(error.to_string()))?;
        let mut launcher = Command::new(own);
        launcher.args(["launch", "--parent", &std::process::id().to_string()]);
        if let Some(process) = self.network_of {
            launcher.args(["--network-of", &process.to_string()]);
        }
        if self.own_network {
            launcher.arg("--own-network");
        }
        if let Some(user) = self.user {
            launcher.args(["--user", user]);
        }
        launcher.arg("--").args(&self.command);
        // What is in our environment must not decide which kind of calls is measured.
        launcher.env_remove("PETASOS_SERVICE").env_remove("PETASOS_APPLICATION");
        launcher.envs(self.environment.iter().cloned()).stdin(Stdio::null());
        Ok(launcher)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It fails: with what it has said.
    pub fn run(&self) -> Result<(), Error> {
        let name = self.name();
        let output = self.launcher()?.output();
        let output = output.map_err(|error| Error::internal(format!("{name}: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::internal(format!("{name} ({}): {}", output.status, last_line(&said))))
    }

    fn name(&self) -> String {
        let program = self.command.first().map(PathBuf::from).unwrap_or_default();
        program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Starts it. What it says goes to a file in `folder`.
    ///
    /// # Errors
    /// The system's.
    pub fn start(&self, name: &str, folder: &Path) -> Result<Process, Error> {
        let failed = |error: std::io::Error| Error::internal(format!("{name}: {error}"));
        let says = folder.join(format!("{name}.log"));
        let file = File::create(&says).map_err(failed)?;
        let mut launcher = self.launcher()?;
        launcher.stdout(file.try_clone().map_err(failed)?).stderr(file);
        let child = launcher.spawn().map_err(failed)?;
        Ok(Process { name: name.to_owned(), child, says, end: Signal::TERM })
    }
}

/// The last line that says something.
fn last_line(said: &str) -> &str {
    said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it says nothing")
}

/// A running program, which ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    says: PathBuf,
    end: Signal,
}

impl Process {
    /// Ends by this signal instead of TERM.
    pub fn ended_by(mut self, signal: Signal) -> Process {
        self.end = signal;
        self
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.says).unwrap_or_default()
    }

    /// Waits until `look` finds something.
    ///
    /// # Errors
    /// The program has ended, or that takes too long.
    pub async fn until<T>(
        &mut self,
        mut look: impl AsyncFnMut(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let clock = SystemClock::default();
        let give_up_at = clock.now() + READY_LIMIT;
        loop {
            // Before the look: what it said last counts.
            let status = self.child.try_wait().ok().flatten();
            if let Some(found) = look(&self.said()).await {
                return Ok(found);
            }
            if let Some(status) = status {
                return Err(self.failed(&format!("has ended ({status})")));
            }
            if clock.now() > give_up_at {
                return Err(self.failed("does not come up"));
            }
            sleep(LOOK).await;
        }
    }

    fn failed(&self, how: &str) -> Error {
        Error::away(format!("{} {how}: {}", self.name, last_line(&self.said())))
    }

    /// Waits for a line that begins so, and returns the rest of it.
    ///
    /// # Errors
    /// As for [`Process::until`].
    pub async fn line(&mut self, beginning: &str) -> Result<String, Error> {
        self.until(async |said| {
            // The last line may not be whole.
            let (said, _) = said.rsplit_once('\n')?;
            said.lines().find_map(|line| line.strip_prefix(beginning)).map(str::to_owned)
        })
        .await
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (None, Some(id)) = (self.status(), id) {
            // It is our child and was not waited for, so the number is still its own.
            let _ = kill_process(id, self.end);
            let clock = SystemClock::default();
            let give_up_at = clock.now() + END_LIMIT;
            while self.status().is_none() && clock.now() < give_up_at {
                std::thread::sleep(LOOK);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_told() {
        assert_eq!(last_line("one\n two \n\n"), "two");
        assert_eq!(last_line("\n"), "it says nothing");
    }
}
