//! The daemon as a child process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use petasos::Pem;
use petasos_attach::Attachment;
use petasos_attach::ask::Ask;
use petasos_attach::hello::Hello;
use petasos_attach::reason::Text;

use crate::support::{Client, PATIENCE, PROTOS};

pub struct Daemon {
    folder: PathBuf,
    child: Child,
}

impl Daemon {
    pub fn start(name: &str, policies: Option<&str>) -> Daemon {
        Daemon::start_more(name, policies, &[""; 0])
    }

    pub fn start_more(name: &str, policies: Option<&str>, more: &[impl AsRef<OsStr>]) -> Daemon {
        let folder = folder(name);
        let child = command(&folder, policies).args(more).spawn().unwrap();
        let mut daemon = Daemon { child, folder };
        daemon.await_socket();
        daemon
    }

    /// One that writes what it says to a file. Gives the file's path.
    pub fn start_logged(name: &str) -> (Daemon, PathBuf) {
        let folder = folder(name);
        let log = folder.join("log");
        let file = std::fs::File::create(&log).unwrap();
        let child = command(&folder, None).stderr(file).spawn().unwrap();
        let mut daemon = Daemon { child, folder };
        daemon.await_socket();
        (daemon, log)
    }

    /// What one says that does not start.
    pub fn start_failing(more: &[&str]) -> String {
        let folder = folder("failing");
        let output = command(&folder, None).args(more).stderr(Stdio::piped()).output().unwrap();
        let _ = std::fs::remove_dir_all(&folder);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// One that other hosts reach at `listen`, with these names of others. Gives its address.
    pub fn start_reached(
        name: &str,
        policies: Option<&str>,
        listen: &str,
        peers: &[(&str, &str)],
    ) -> (Daemon, String) {
        Daemon::start_with(name, policies, listen, peers, |_, _| {})
    }

    /// The same, with a certificate and more arguments.
    pub fn start_certified(
        name: &str,
        policies: Option<&str>,
        listen: &str,
        peers: &[(&str, &str)],
        (pem, more): (&Pem, &[&str]),
    ) -> (Daemon, String) {
        Daemon::start_with(name, policies, listen, peers, |command, folder| {
            command.args(more);
            let files = [
                ("--tls-cert", &pem.certificate),
                ("--tls-key", &pem.key),
                ("--tls-ca", &pem.authorities),
            ];
            for (option, contents) in files {
                let file = folder.join(option);
                std::fs::write(&file, contents.as_ref().unwrap()).unwrap();
                command.arg(option).arg(file);
            }
        })
    }

    /// The same over TCP.
    pub fn start_over_tcp(name: &str, listen: &str, peers: &[(&str, &str)]) -> (Daemon, String) {
        Daemon::start_with(name, None, listen, peers, |command, _| {
            command.args(["--transport", "tcp"]);
        })
    }

    fn start_with(
        name: &str,
        policies: Option<&str>,
        listen: &str,
        peers: &[(&str, &str)],
        options: impl FnOnce(&mut Command, &Path),
    ) -> (Daemon, String) {
        let folder = folder(name);
        let mut command = command(&folder, policies);
        command.arg("--listen").arg(listen);
        for (name, target) in peers {
            command.arg("--peer").arg(format!("{name}={target}"));
        }
        options(&mut command, &folder);
        Daemon::start_saying(folder, command, "reached by other hosts at ")
    }

    /// One whose metrics are served. Gives the address.
    pub fn start_metrics(name: &str, policies: Option<&str>) -> (Daemon, String) {
        Daemon::start_scraped(name, policies, &["--metrics", "127.0.0.1:0"])
    }

    /// The same, with all of its arguments.
    pub fn start_metrics_with(name: &str, arguments: &[&str]) -> (Daemon, String) {
        Daemon::start_scraped(name, None, arguments)
    }

    fn start_scraped(name: &str, policies: Option<&str>, arguments: &[&str]) -> (Daemon, String) {
        let folder = folder(name);
        let mut command = command(&folder, policies);
        command.args(arguments);
        let (daemon, url) = Daemon::start_saying(folder, command, "metrics at http://");
        (daemon, url.strip_suffix("/metrics").unwrap().to_owned())
    }

    /// One with a configuration file that `text` makes in its folder. Gives what it says behind
    /// each of some words, which come in this order.
    pub fn start_configured(
        name: &str,
        policies: Option<&str>,
        text: impl FnOnce(&Path) -> String,
        words: &[&str],
    ) -> (Daemon, Vec<String>) {
        let folder = folder(name);
        let (mut command, file) = (command(&folder, policies), folder.join("petasosd.toml"));
        std::fs::write(&file, text(&folder)).unwrap();
        command.arg("--config").arg(file);
        Daemon::start_saying_all(folder, command, words)
    }

    /// Gives what it says behind some words.
    fn start_saying(folder: PathBuf, command: Command, words: &str) -> (Daemon, String) {
        let (daemon, mut said) = Daemon::start_saying_all(folder, command, &[words]);
        (daemon, said.remove(0))
    }

    fn start_saying_all(
        folder: PathBuf,
        mut command: Command,
        words: &[&str],
    ) -> (Daemon, Vec<String>) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut behind = |words: &&str| {
            said.by_ref().find_map(|line| Some(line.unwrap().split_once(words)?.1.to_owned()))
        };
        let addresses: Option<Vec<String>> = words.iter().map(&mut behind).collect();
        // What it says later is read, too, so that it can say it.
        std::thread::spawn(move || said.for_each(drop));
        let mut daemon = Daemon { child, folder };
        daemon.await_socket();
        (daemon, addresses.expect("it says where"))
    }

    /// Sends it SIGHUP.
    pub fn hang_up(&self) {
        let child = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::HUP).unwrap();
    }

    /// Kills the process that this test has started.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.child = command(&self.folder, None).spawn().unwrap();
        self.await_socket();
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the system says of its first thread.
    pub fn status(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap()
    }

    /// Where operators connect.
    pub fn admin_socket(&self) -> PathBuf {
        self.folder.join("admin.sock")
    }

    /// Says otherwise what applications get, once it is told to look.
    pub fn write_policies(&self, text: &str) {
        std::fs::write(self.folder.join("policies.json"), text).unwrap();
    }

    /// What a second daemon at the same socket says before it ends.
    pub fn second(&self, policies: Option<&str>) -> (bool, String) {
        self.second_with(policies, &[])
    }

    /// The same, with more arguments.
    pub fn second_with(&self, policies: Option<&str>, arguments: &[String]) -> (bool, String) {
        let output = command(&self.folder, policies)
            .args(arguments)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }

    /// Waits until it accepts connections.
    fn await_socket(&mut self) {
        for _ in 0..3000 {
            if std::os::unix::net::UnixStream::connect(self.folder.join("socket")).is_ok() {
                return;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "the daemon has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the daemon does not listen");
    }

    pub fn attach(&self, name: &str) -> Client {
        self.attach_with(name, PROTOS, true)
    }

    /// An application that only calls the service.
    pub fn attach_caller(&self, name: &str) -> Client {
        self.attach_with(name, PROTOS, false)
    }

    /// An application with the next version of the service.
    pub fn attach_newer(&self, name: &str) -> Client {
        self.attach_version(name, "newer")
    }

    /// An application with another version of the service: the folder of its `.proto` file.
    pub fn attach_version(&self, name: &str, version: &str) -> Client {
        self.attach_with(name, &format!("{PROTOS}/{version}"), true)
    }

    fn attach_with(&self, name: &str, protos: &str, is_served: bool) -> Client {
        let hello = Hello::new(name, 1).unwrap();
        let path = self.folder.join("socket");
        let attachment = Attachment::connect(&path, &hello, PATIENCE).unwrap();
        Client::new(attachment, protos, is_served)
    }

    /// An application that greets `count` times, and then detaches. Gives the names.
    pub fn serve(&self, name: &str, count: usize) -> JoinHandle<Vec<String>> {
        let mut server = self.attach(name);
        assert_eq!(server.attachment.ask(&Ask::Serve(Text::new("greeter"))).unwrap(), 0);
        std::thread::spawn(move || (0..count).map(|_| server.answer()).collect())
    }

    /// An application that greets all, the last of them `last`. Gives the names.
    pub fn serve_until(&self, name: &str, last: &'static str) -> JoinHandle<Vec<String>> {
        self.serve_as(name, "greeter", last)
    }

    /// The same, under another name than others.
    pub fn serve_as(
        &self,
        name: &str,
        served: &str,
        last: &'static str,
    ) -> JoinHandle<Vec<String>> {
        let mut server = self.attach(name);
        server.serve(served);
        std::thread::spawn(move || {
            let mut names = Vec::new();
            while names.last().is_none_or(|name| name != last) {
                names.push(server.answer());
            }
            names
        })
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("petasosd-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn command(folder: &Path, policies: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasosd"));
    command.arg("--socket").arg(folder.join("socket")).stderr(Stdio::null());
    if let Some(policies) = policies {
        let file = folder.join("policies.json");
        std::fs::write(&file, policies).unwrap();
        command.arg("--policies").arg(file);
    }
    // Whatever is tested holds with several runtimes, too (docs/TESTING.md).
    if let Ok(runtimes) = std::env::var("PETASOS_TEST_RUNTIMES") {
        command.args(["--runtimes", &*runtimes]);
    }
    command
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
