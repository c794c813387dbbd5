//! A command whose output goes to a file, with a limit of time: whether it failed, and how.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a command with its output in `log`. Returns `None` if it succeeds, otherwise what went
/// wrong. It is killed if it takes longer than `timeout`.
pub fn failure_of(
    command: &mut Command,
    log: &Path,
    timeout: Duration,
) -> Result<Option<String>, String> {
    let file = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = file.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let child = command.spawn();
    let mut child = child.map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    match wait(&mut child, timeout)? {
        Some(status) if status.success() => Ok(None),
        Some(status) => Ok(Some(format!("failed ({status})"))),
        None => Ok(Some(format!("was ended after {} s", timeout.as_secs()))),
    }
}

/// The child's exit status, or `None` if it took too long and was killed.
fn wait(child: &mut Child, timeout: Duration) -> Result<Option<ExitStatus>, String> {
    let begin = now();
    loop {
        let status = child.try_wait().map_err(|error| format!("cannot wait: {error}"))?;
        if status.is_some() {
            return Ok(status);
        }
        if begin.elapsed() > timeout {
            let killed = child.kill().and_then(|()| child.wait());
            return killed.map(|_| None).map_err(|error| format!("cannot kill: {error}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Wall-clock time, for limits and for display.
#[expect(clippy::disallowed_methods, reason = "xtask does not link the workspace's clock")]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn failures_are_told_apart_from_successes_and_hangs() {
        let long = Duration::from_secs(60);
        let log = std::env::temp_dir().join(format!("attempt-test-{}", std::process::id()));
        assert_eq!(failure_of(&mut shell("exit 0"), &log, long), Ok(None));
        let failed = failure_of(&mut shell("echo why; exit 3"), &log, long).unwrap().unwrap();
        assert!(failed.contains('3'), "{failed}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "why\n");
        std::fs::remove_file(&log).unwrap();
        let mut endless = shell("exec sleep 1000").spawn().unwrap();
        assert_eq!(wait(&mut endless, Duration::from_millis(1)), Ok(None));
    }
}
