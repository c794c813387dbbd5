//! Launching programs that know nothing of this measurement.
//!
//! The parent starts this program as a launcher. It pins itself, asks the kernel to be killed when
//! its parent ends, and becomes the program, which keeps both. So no program is left behind,
//! whatever happens to the measurement.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use clap::Args;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

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
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If it ended before, nobody would say so.
    if getppid().map(Pid::as_raw_pid) != Some(args.parent) {
        return Err("the measurement has ended".into());
    }
    let (program, arguments) = args.command.split_first().ok_or("no program is named")?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("cannot start {}: {error}", program.display()).into())
}

/// A launched program; killed when it is dropped.
#[derive(Debug)]
pub struct Launched {
    who: String,
    child: Child,
}

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
        let parent = std::process::id().to_string();
        let mut launcher = Command::new(std::env::current_exe()?);
        launcher.args(["managed-launch", "--core", &core.to_string(), "--parent", &parent, "--"]);
        launcher.arg(command.get_program()).args(command.get_args());
        launcher.stdin(Stdio::null()).stdout(says.try_clone()?).stderr(says);
        Ok(Launched { who, child: launcher.spawn()? })
    }

    /// What errors call it.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
