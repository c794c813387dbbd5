//! Launching programs that know nothing of this measurement.
//!
//! The parent starts this program as a launcher. It pins itself, asks the kernel to be killed when
//! its parent ends, and becomes the program, which keeps both. So no program is left behind,
//! whatever happens to the measurement.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use petasos_base::SystemClock;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

use crate::error::BenchError;
use crate::turns::pin;

/// Become a program that ends with its parent (internal)
#[derive(Args, Clone, Debug)]
pub struct LaunchArgs {
    /// The core to run on
    #[arg(long)]
    core: usize,
    /// The process that has started this one
    #[arg(long)]
    parent: i32,
    /// End the program by SIGTERM, not SIGKILL: it has processes of its own, and ends them then
    #[arg(long)]
    term: bool,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the program. Returns only if that is not possible.
///
/// # Errors
/// If the parent has ended, or the program cannot be started.
pub fn launch(args: &LaunchArgs) -> Result<(), BenchError> {
    pin(args.core);
    set_parent_process_death_signal(Some(if args.term { Signal::TERM } else { Signal::KILL }))?;
    // If it ended before, nobody would say so.
    if getppid().map(Pid::as_raw_pid) != Some(args.parent) {
        return Err("the measurement has ended".into());
    }
    let (program, arguments) = args.command.split_first().ok_or("no program is named")?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("cannot start {}: {error}", program.display()).into())
}

/// A launched program; ended when it is dropped.
#[derive(Debug)]
pub struct Launched {
    who: String,
    child: Child,
    has_processes: bool,
}

/// How long a program with processes of its own may take to end them, before it is killed.
const END_MAX: Duration = Duration::from_secs(3);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(5);

impl Launched {
    /// Launches `command` (only its program and arguments count) on a core. What it says goes to
    /// the file `says`. This must be called on the main thread: the program ends with the thread
    /// that launches it.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        who: String,
        core: usize,
        command: &Command,
        says: File,
    ) -> Result<Launched, BenchError> {
        Launched::start_as(who, core, command, says, false)
    }

    /// The same, for a program that may have processes of its own, and ends them on SIGTERM.
    ///
    /// # Errors
    /// The system's.
    pub fn start_with_processes(
        who: String,
        core: usize,
        command: &Command,
        says: File,
    ) -> Result<Launched, BenchError> {
        Launched::start_as(who, core, command, says, true)
    }

    fn start_as(
        who: String,
        core: usize,
        command: &Command,
        says: File,
        has_processes: bool,
    ) -> Result<Launched, BenchError> {
        let parent = std::process::id().to_string();
        let mut launcher = Command::new(std::env::current_exe()?);
        launcher.args(["managed-launch", "--core", &core.to_string(), "--parent", &parent]);
        if has_processes {
            launcher.arg("--term");
        }
        launcher.arg("--");
        launcher.arg(command.get_program()).args(command.get_args());
        launcher.stdin(Stdio::null()).stdout(says.try_clone()?).stderr(says);
        Ok(Launched { who, child: launcher.spawn()?, has_processes })
    }

    /// What errors call it.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, at once.
    ///
    /// # Errors
    /// The system's.
    pub fn kill(&mut self) -> Result<(), BenchError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if self.has_processes {
            kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
            let clock = SystemClock::default();
            let give_up_at = clock.now() + END_MAX;
            while !self.has_ended() && clock.now() < give_up_at {
                std::thread::sleep(LOOK);
            }
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
