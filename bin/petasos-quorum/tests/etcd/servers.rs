//! Members with etcd's port, and etcd itself: processes that end with the test.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use petasos::{Channel, block_on};
use petasos_base::SystemClock;
use petasos_quorum_etcd::api::{KVClient, RangeRequest};

/// Longer than anything in these tests takes.
const PATIENCE: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_petasos-quorum");

/// Waits until something is so.
pub fn until(mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::default();
    let begin = clock.now();
    while !is_so() {
        assert!(clock.now() - begin < PATIENCE, "it does not come to pass");
        sleep(Duration::from_millis(20));
    }
}

/// A process that is killed with the test.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Of one that has ended, there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A member with its port.
pub struct Member {
    process: Option<Process>,
    options: Vec<String>,
    /// Where members call it.
    pub address: String,
    /// Where etcd's clients do.
    pub port: String,
}

impl Member {
    /// A member at addresses of the whole loopback network that no other test has.
    pub fn start(test: u8, member: u8, options: &[&str]) -> Member {
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = format!("127.{high}.{low}.{}", 10 * test + member);
        let (address, port) = (format!("{host}:7432"), format!("{host}:2379"));
        let mut all = vec!["serve", "--until-stdin-closes", "--etcd", &port];
        all.extend_from_slice(options);
        if options.iter().any(|option| ["--init", "--join"].contains(option)) {
            all.extend_from_slice(&["--listen", &address]);
        }
        let options = all.into_iter().map(str::to_owned).collect();
        let mut member = Member { process: None, options, address, port };
        member.run();
        member
    }

    /// Starts it, again if it has ended, and returns once its port answers.
    pub fn run(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.args(&self.options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("listening on"), "{first}");
        let second = lines.next().unwrap().unwrap();
        assert_eq!(second, format!("etcd's clients may call {}", self.port));
        self.process = Some(Process(child));
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn channel(&self) -> Channel {
        channel(&self.port)
    }
}

pub fn channel(address: &str) -> Channel {
    Channel::builder(&format!("grpc://{address}")).connect_lazily().unwrap()
}

/// An empty folder.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// etcd itself, and where it is called. None, with a message, if there is none here.
pub fn etcd(test: &str) -> Option<(Process, String)> {
    let data = folder(test);
    for attempt in 0..5 {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (clients, peers) = (free(), free());
        let (urls, peer_urls) = (format!("http://{clients}"), format!("http://{peers}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(data.join(attempt.to_string()));
        command.args(["--listen-client-urls", &urls, "--advertise-client-urls", &urls]);
        command.args(["--listen-peer-urls", &peer_urls]);
        command.args(["--initial-advertise-peer-urls", &peer_urls]);
        command.args(["--initial-cluster", &format!("default={peer_urls}")]);
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            petasos_skips::skip("etcd", "there is no etcd");
            return None;
        };
        let mut process = Process(child);
        // It ends if another process was faster at one of its ports.
        let mut has_ended = false;
        until(|| {
            has_ended = process.0.try_wait().unwrap().is_some();
            has_ended || TcpStream::connect(clients).is_ok()
        });
        if !has_ended {
            let channel = channel(&clients.to_string());
            until(|| {
                let mut range = RangeRequest::new();
                range.edit().set_key("a");
                block_on(KVClient::new(channel.clone()).range(range)).is_ok()
            });
            return Some((process, clients.to_string()));
        }
    }
    panic!("etcd does not start");
}

/// What a program prints, and whether it succeeds. None, with a message, if it is not here.
pub fn output(what: &str, command: &mut Command) -> Option<(bool, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        petasos_skips::skip(what, format!("there is no {what}"));
        return None;
    };
    let mut errors = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text)
    });
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    text.push_str(&reader.join().unwrap().unwrap());
    Some((child.wait().unwrap().success(), text))
}
