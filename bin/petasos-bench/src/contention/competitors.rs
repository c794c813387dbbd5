//! Busy processes that compete for the cores of client and server.
//!
//! Each is this program in a hidden role: it computes on one core until it is killed. It also ends
//! when its parent dies, however that happens, and at a time limit. Only processes that were
//! started here are killed.

use std::fmt;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use petasos_base::Clock;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::error::BenchError;
use crate::turns::pin;

/// Client and server are on cores 0 and 1.
const CORES: usize = 2;
/// Extra time for starting, and for turns that end late.
const MARGIN: Duration = Duration::from_secs(60);

/// The arguments of a busy process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The core to use.
    core: usize,
    /// The parent, with which the process ends.
    parent: u32,
    /// The time limit, in milliseconds from the start.
    limit_ms: u64,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.core, self.parent, self.limit_ms)
    }
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Role, &'static str> {
        let wrong = "a role is CORE,PARENT,LIMIT_MS";
        let mut words = text.split(',');
        let mut next = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or(wrong);
        let (core, parent, limit_ms) = (next()?, next()?, next()?);
        let core = usize::try_from(core).map_err(|_| wrong)?;
        let parent = u32::try_from(parent).map_err(|_| wrong)?;
        if words.next().is_some() { Err(wrong) } else { Ok(Role { core, parent, limit_ms }) }
    }
}

/// Computes until the parent or the limit ends it.
pub fn compete(role: &Role) -> Result<(), BenchError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before this setting took effect.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(role.parent) {
        return Err("the process that wanted this one is gone".into());
    }
    pin(role.core);
    let clock = Clock::system();
    let end = clock.now() + Duration::from_millis(role.limit_ms);
    println!("busy");
    std::io::stdout().flush()?;
    let mut sum = 0u64;
    while clock.now() < end {
        for number in 0..100_000 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
    Ok(())
}

/// Running busy processes. Dropping them ends them.
pub struct Competitors {
    children: Vec<Child>,
}

impl Competitors {
    /// Starts `count` processes, alternately on both cores, and waits until all are busy. They run
    /// for `duration` plus a margin.
    pub fn start(count: usize, duration: Duration) -> Result<Competitors, BenchError> {
        let program = std::env::current_exe()?;
        let mut competitors = Competitors { children: Vec::new() };
        let limit_ms = (duration + MARGIN).as_millis() as u64;
        for index in 0..count {
            let role = Role { core: index % CORES, parent: std::process::id(), limit_ms };
            let child = Command::new(&program)
                .args(["contention", "--competitor-role", &role.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| format!("cannot start a busy process: {error}"))?;
            competitors.children.push(child);
        }
        for child in &mut competitors.children {
            let stdout = child.stdout.take().ok_or("a busy process has no output")?;
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            if line.trim_end() != "busy" {
                return Err("a busy process did not come up".into());
            }
        }
        Ok(competitors)
    }

    /// Kills them all now. This is cheap: [`Competitors::wait`] does the rest.
    pub fn end(&mut self) {
        for child in &mut self.children {
            child.kill().ok();
        }
    }

    /// Waits until all are gone.
    ///
    /// # Errors
    /// If one had ended before [`Competitors::end`], because then the measurement was not under
    /// contention.
    pub fn wait(mut self) -> Result<(), BenchError> {
        for child in &mut self.children {
            if child.wait()?.signal() != Some(Signal::KILL.as_raw()) {
                return Err("a busy process ended early: there was less contention than asked \
                            for, and the figures would be too good; measure again"
                    .into());
            }
        }
        Ok(())
    }
}

impl Drop for Competitors {
    fn drop(&mut self) {
        self.end();
        for child in &mut self.children {
            child.wait().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_survives_the_command_line() {
        let role = Role { core: 1, parent: 4711, limit_ms: 60_000 };
        assert_eq!(role.to_string().parse(), Ok(role));
        for wrong in ["", "1,2", "1,2,3,4", "1,2,x", "1,-2,3", "1,99999999999,3"] {
            assert!(wrong.parse::<Role>().is_err(), "{wrong}");
        }
    }
}
