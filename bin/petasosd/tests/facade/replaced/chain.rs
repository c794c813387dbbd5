//! A daemon and those that take over from it, one after the other.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use petasos_base::Clock;

use crate::support::Daemon;

/// For what takes no time unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Chain {
    /// The one that serves.
    pub daemon: Daemon,
    /// The one before, which ends.
    former: Option<Child>,
}

impl Chain {
    pub fn start(name: &str, options: &[&str]) -> Chain {
        Chain { daemon: Daemon::start_more(name, None, options), former: None }
    }

    pub fn start_with_policies(name: &str, policies: &str, options: &[&str]) -> Chain {
        Chain { daemon: Daemon::start_more(name, Some(policies), options), former: None }
    }

    /// One that other hosts reach at `listen`, with more options. Gives where.
    pub fn start_reached(name: &str, listen: &str, options: &[&str]) -> (Chain, SocketAddr) {
        let arguments = [&["--listen", listen], options].concat();
        let (mut chain, address) = Chain::start_saying(name, &arguments, "at petasos://");
        // The next ones are reached where this one is.
        chain.daemon.set_arguments(&[&["--listen", &*address], options].concat());
        (chain, address.parse().unwrap())
    }

    /// One with options, and what it says after `before`.
    pub fn start_saying(name: &str, options: &[&str], before: &str) -> (Chain, String) {
        let (daemon, said) = Daemon::start_saying(name, None, options, before);
        (Chain { daemon, former: None }, said)
    }

    fn taker(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_petasosd"));
        command.arg("--socket").arg(self.daemon.folder().join("socket"));
        command.arg("--takeover").args(options).stderr(Stdio::piped());
        if !options.contains(&"--audit") {
            command.arg("--audit").arg(self.daemon.folder().join("audit"));
        }
        command
    }

    /// Another process takes over. Returns when it serves.
    pub fn replace(&mut self, options: &[&str]) {
        let mut child = self.taker(options).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut all = Vec::new();
        let serves = said.by_ref().map(Result::unwrap).any(|line| {
            let serves = line.contains("listening at");
            all.push(line);
            serves
        });
        assert!(serves, "{all:?}");
        std::thread::spawn(move || said.for_each(drop));
        self.former = Some(self.daemon.succeeded(child));
    }

    /// Another process does not take over. Gives what it says.
    pub fn fail_to_replace(&mut self, options: &[&str]) -> String {
        let mut child = self.taker(options).spawn().unwrap();
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(!child.wait().unwrap().success(), "{text}");
        text
    }

    /// Waits until the process that was replaced has ended by itself.
    pub fn await_former(&mut self) {
        let Some(mut former) = self.former.take() else { return };
        let clock = Clock::system();
        let begun = clock.now();
        loop {
            match former.try_wait().unwrap() {
                Some(status) => return assert!(status.success(), "{status}"),
                None if clock.now() - begun > PATIENCE => {
                    let _ = former.kill();
                    let _ = former.wait();
                    panic!("it does not end");
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Kills the process that serves.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts one that takes over from nobody.
    pub fn restart(&mut self) {
        self.daemon.restart();
    }

    pub fn folder(&self) -> &Path {
        self.daemon.folder()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if let Some(mut former) = self.former.take() {
            let _ = former.kill();
            let _ = former.wait();
        }
    }
}
