//! `petasos ctl upgrade`: another `petasosd` takes over from the one that runs (ADR 20).
//!
//! This command starts the program itself, as the operator who runs it: the service starts nothing,
//! so nobody can have it start something. The service that runs judges the new process by its user,
//! and writes down which program it was.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use petasos::Code;
use petasos_base::Clock;
use petasos_cli::admin::ServiceArgs;
use petasos_cli::failed::Failed;
use petasos_cli::output;

/// The process that runs gives the new one so long to serve, and a little more.
const READY_MAX: Duration = Duration::from_secs(70);
/// The child is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest datagram that is read.
const SAID_BYTES_MAX: usize = 4096;

#[derive(Args)]
pub(super) struct UpgradeArgs {
    /// The new `petasosd`.
    binary: PathBuf,
    /// Its options, behind `--`: those that the one that runs was started with. Policies and quotas
    /// come from that one, as they are in force.
    #[arg(last = true)]
    options: Vec<String>,
    /// Where the new process writes what it has to say [default: here].
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Wait until the process before it has ended what was under way there.
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(service: &ServiceArgs, args: &UpgradeArgs) -> Result<(), Failed> {
    let ear = Ear::new()?;
    let mut child = start(args, &ear)?;
    await_ready(&mut child, &ear, args)?;
    tell(service, "serving", &format!("process {} serves", child.id()), child.id())?;
    if args.wait {
        await_end(&mut child, &ear)?;
        tell(service, "ended", "the process before it has ended", child.id())?;
    }
    Ok(())
}

fn tell(service: &ServiceArgs, state: &str, text: &str, pid: u32) -> Result<(), Failed> {
    let line = match service.json {
        true => serde_json::json!({ "state": state, "pid": pid }).to_string(),
        false => text.to_owned(),
    };
    Ok(output::answer(line.as_bytes())?)
}

fn start(args: &UpgradeArgs, ear: &Ear) -> Result<Child, Failed> {
    let mut command = Command::new(&args.binary);
    command.arg("--takeover").args(&args.options).env("NOTIFY_SOCKET", ear.path());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(log) = &args.log {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
        let file = file.map_err(|error| {
            Failed::new(format!("cannot open {}: {error}", log.display()))
                .with_advice("name a file that can be written")
        })?;
        command.stderr(file);
    }
    // It goes on when this command has ended, and is no part of what the terminal interrupts.
    command.process_group(0).spawn().map_err(|error| {
        Failed::new(format!("cannot start {}: {error}", args.binary.display()))
            .with_advice("name a `petasosd` that this user may run")
    })
}

/// Waits until the new process serves.
fn await_ready(child: &mut Child, ear: &Ear, args: &UpgradeArgs) -> Result<(), Failed> {
    let clock = Clock::system();
    let begun = clock.now();
    while !ear.hears("READY=1") {
        if let Ok(Some(status)) = child.try_wait() {
            let what = format!("{} has ended ({status})", args.binary.display());
            let advice = "the service that ran goes on; what the other said is above, or in --log";
            return Err(Failed::new(what).with_advice(advice).with_status(Code::Aborted));
        }
        if clock.now() - begun > READY_MAX {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failed::new("the new process does not get to serve")
                .with_advice("the service that ran goes on; see what the other said")
                .with_status(Code::DeadlineExceeded));
        }
    }
    Ok(())
}

/// Waits until the process before has ended.
fn await_end(child: &mut Child, ear: &Ear) -> Result<(), Failed> {
    while !ear.hears("STATUS=the process before this one has ended") {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Failed::new(format!("the new process has ended ({status})"))
                .with_advice("start `petasosd`: applications attach again")
                .with_status(Code::Unavailable));
        }
    }
    Ok(())
}

/// Where the new process says how far it is, in systemd's way: a socket in a folder that is for
/// this user only.
struct Ear {
    folder: PathBuf,
    socket: UnixDatagram,
}

impl Ear {
    fn new() -> Result<Ear, Failed> {
        let folder = std::env::temp_dir().join(format!("petasos-upgrade-{}", std::process::id()));
        let failed = |error: std::io::Error| {
            Failed::new(format!("cannot make a socket in {}: {error}", folder.display()))
                .with_advice("set TMPDIR to a folder in which this user may make files")
        };
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let socket = UnixDatagram::bind(folder.join("notify")).map_err(failed)?;
        socket.set_read_timeout(Some(LOOK_EVERY)).map_err(failed)?;
        Ok(Ear { folder, socket })
    }

    fn path(&self) -> PathBuf {
        self.folder.join("notify")
    }

    /// Waits a little for a line.
    fn hears(&self, line: &str) -> bool {
        let mut bytes = [0; SAID_BYTES_MAX];
        let Ok(count) = self.socket.recv(&mut bytes) else { return false };
        String::from_utf8_lossy(&bytes[..count]).lines().any(|said| said == line)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.path());
        let _ = std::fs::remove_dir(&self.folder);
    }
}
