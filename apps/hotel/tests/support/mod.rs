//! Runs the application, and asks its frontends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than anything that works takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// So often something is tried that has to work in the end.
const ATTEMPTS: usize = 3000;

/// The program.
pub fn hotel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotel"));
    command.args(arguments).env_remove("PETASOS_SERVICE");
    command
}

fn petasosd() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_hotel")).with_file_name("petasosd")
}

/// What this machine lacks: in a word, and for people.
pub fn missing() -> Option<(&'static str, &'static str)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = |name: &str| std::env::split_paths(&path).any(|at| at.join(name).is_file());
    if !on_path("memcached") {
        return Some(("memcached", "memcached is not installed"));
    }
    if !Path::new("/usr/lib/postgresql").is_dir() && !on_path("initdb") {
        return Some(("postgresql", "PostgreSQL is not installed"));
    }
    let is_built = petasosd().is_file();
    (!is_built).then_some(("petasosd", "petasosd was not built: cargo build -p petasosd"))
}

/// The application, which ends with this.
pub struct Play {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The frontends' addresses, by what carries calls.
    pub frontends: BTreeMap<String, String>,
}

impl Play {
    pub fn start(ways: &[&str]) -> Play {
        let mut command = hotel(&["stage", &ways.join(",")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was just built");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map(|line| tell.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        let mut play = Play { child, input, lines, frontends: BTreeMap::new() };
        for way in ways {
            let line = play.line();
            let address = line.strip_prefix(&format!("{way}: http://")).expect("it says where");
            play.frontends.insert((*way).to_owned(), address.to_owned());
        }
        assert_eq!(play.line(), "ready");
        play
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it says something")
    }

    /// Tells it to do something, and waits until that is done.
    pub fn act(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{line}").expect("it reads its input");
        assert_eq!(self.line(), format!("done: {line}"));
    }

    /// Tries until there is an outcome.
    pub fn until<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        for _ in 0..ATTEMPTS {
            if let Some(outcome) = attempt() {
                return outcome;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("it does not come");
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        // It ends what it has started; if it does not, the kernel does.
        drop(self.input.take());
        for _ in 0..ATTEMPTS {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The head and the body of an answer.
fn exchange(frontend: &str, url: &str) -> (String, String) {
    let mut stream = TcpStream::connect(frontend).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a time");
    let request = format!("GET {url} HTTP/1.1\r\nhost: hotel\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it has a head");
    (head.to_owned(), body.to_owned())
}

/// The status and the body of an answer.
pub fn get(frontend: &str, url: &str) -> (u16, String) {
    let (head, body) = exchange(frontend, url);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("it has a status"), body)
}

/// Where the time of an answer went.
pub fn timing(frontend: &str, url: &str) -> String {
    let (head, _) = exchange(frontend, url);
    let timing = head.lines().find_map(|line| line.strip_prefix("server-timing: "));
    timing.expect("it is told").to_owned()
}

/// Runs a load, whose requests all have to succeed, and returns requests and answers.
pub fn load(frontend: &str) -> String {
    let folder = std::env::temp_dir();
    let file = |what: &str| folder.join(format!("hotel-test-{}-{what}", std::process::id()));
    let (answers, json) = (file("answers"), file("json"));
    let mut command = hotel(&["load", frontend, "--rate", "100", "--seconds", "3", "--seed", "5"]);
    command.arg("--answers").arg(&answers).arg("--json").arg(&json).stdout(Stdio::null());
    assert!(command.status().expect("it was just built").success());
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).expect("it was written");
        std::fs::remove_file(path).expect("it is ours");
        text
    };
    let report: serde_json::Value = serde_json::from_str(&read(&json)).expect("it is JSON");
    assert_eq!((&report["answered"], &report["failed"]), (&300.into(), &0.into()), "{report}");
    for part in ["frontend", "search", "geo", "rate", "recommendation", "reservation", "profile"] {
        let times = &report["parts"][part];
        let mean = |of: &str| times[of]["mean_us"].as_f64().expect("it is a number");
        let sum = mean("app") + mean("network");
        assert!(mean("app") > 0.0 && (mean("total") - sum).abs() < 1.0, "{part}: {times}");
    }
    read(&answers)
}
