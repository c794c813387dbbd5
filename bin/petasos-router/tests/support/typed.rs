//! Workers that are processes and serve typed calls, and callers that note what came of each call.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use petasos::{
    Channel, ChannelBuilder, Credentials, Join, Request, Response, Security, Server, ServerBuilder,
    Status, TlsConfig, block_on,
};
use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_etcd::EtcdOptions;

use crate::certificates::Folder;
use crate::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use crate::support::Process;

pub const PATIENCE: Duration = Duration::from_secs(60);
/// Set in a worker's process: the target of its group.
pub const GROUP: &str = "PETASOS_TEST_GROUP";
pub const SERVICE: [&str; 2] = ["--service", "hello.Greeter"];
/// Set in a worker's process, if the group is sealed: the folder of its certificate.
pub const FOLDER: &str = "PETASOS_TEST_CERTIFICATE";

/// Set in a worker's process that others than this host's reach: its address.
pub const LISTEN: &str = "PETASOS_TEST_LISTEN";

/// TLS with the certificate in a folder; without one, what goes on this host only.
pub fn security(folder: Option<&Path>) -> Security {
    folder.map_or_else(Security::default, |folder| {
        let credentials = Credentials::Files(Folder::files(folder));
        Security::Tls(TlsConfig { credentials, allow: None })
    })
}

/// Says what it runs before it answers.
struct Telling;

impl Greeter for Telling {
    async fn greet(&self, _: Request<Name>) -> Result<Response<Greeting>, Status> {
        Ok(Response::new(Greeting::new()))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        println!("ran {}", String::from_utf8_lossy(request.bytes()));
        Ok(Response::new(request.into_message()))
    }
}

/// A server that says what it runs.
pub fn server() -> ServerBuilder {
    Server::builder().add(GreeterServer::new(Telling))
}

/// What a worker's process runs, if this is one.
pub fn run_worker() {
    let Ok(group) = std::env::var(GROUP) else { return };
    let server = server();
    let folder = std::env::var(FOLDER).ok().map(PathBuf::from);
    let (listen, security) = match (std::env::var(LISTEN), folder) {
        (Ok(listen), None) => (listen, Security::Plaintext),
        (listen, folder) => {
            (listen.unwrap_or("127.0.0.1:0".to_owned()), security(folder.as_deref()))
        }
    };
    let server = server.security(security).listen(&listen).join(joined(&group));
    let server = server.start().expect("the address has ports");
    while !server.routers().iter().any(|at| at.is_member) {
        std::thread::sleep(Duration::from_millis(2));
    }
    println!("worker: ready");
    // It drains and leaves when it is told to, and ends after a while in any case.
    match terminated() {
        true => drop(block_on(server.drain(Duration::from_secs(30)))),
        false => drop(server),
    }
}

/// Whether the routers of a group are listed in etcd.
fn is_listed(group: &str) -> bool {
    group.starts_with("router+etcd://")
}

pub fn joined(group: &str) -> Join {
    match is_listed(group) {
        true => EtcdOptions::new().join(group).expect("it is a target"),
        false => Join::new(group),
    }
}

/// A channel to a group. If its routers are listed, calls wait until one is.
pub fn channel(group: &str) -> ChannelBuilder {
    match is_listed(group) {
        true => petasos_etcd::channel(group).expect("it is a target").wait_for_ready(true),
        false => Channel::builder(group),
    }
}

/// A worker, and what it has run. A line is whole or not there, also if the process is killed.
pub fn worker_with(group: &str, change: impl FnOnce(&mut Command)) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("the test is a program"));
    command.args(["child_worker", "--exact", "--nocapture"]).env(GROUP, group);
    change(&mut command);
    Process::start(command, "worker: ready")
}

/// What callers have seen.
#[derive(Default)]
pub struct Seen {
    greeted: u64,
    /// By what was sent: whether it was answered.
    echoed: HashMap<String, bool>,
    /// The longest call since the last [`Calling::longest`].
    longest: Duration,
}

/// Calls that go on.
pub struct Calling<'a> {
    seen: &'a Mutex<Seen>,
    clock: Clock,
}

impl Calling<'_> {
    fn count(&self) -> u64 {
        self.seen.lock().expect("no call panics").echoed.len() as u64
    }

    /// Waits for so many more.
    pub fn until_more(&self, more: u64) {
        let (begin, end) = (self.count(), self.clock.now() + PATIENCE);
        while self.count() < begin + more {
            assert!(self.clock.now() < end, "calls go on: {} after {begin}", self.count());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The longest call that has ended since this was asked last.
    pub fn longest(&self) -> Duration {
        std::mem::take(&mut self.seen.lock().expect("no call panics").longest)
    }
}

/// Calls from several threads as long as something happens.
pub fn call_with(group: &str, security: Security, happens: impl FnOnce(&Calling<'_>)) -> Seen {
    let channel = channel(group).security(security).connect();
    let client = GreeterClient::new(block_on(channel).expect("a router is there"));
    let (seen, is_over) = (Mutex::new(Seen::default()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (client, seen, is_over) = (&client, &seen, &is_over);
            scope.spawn(move || {
                let clock = Clock::system();
                for call in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let since = clock.now();
                    let greeted = Request::new(Name::new()).with_timeout(PATIENCE);
                    block_on(client.greet(greeted)).expect("it may run again, so none fails");
                    let longest = clock.now() - since;
                    let sent = format!("{thread}-{call}");
                    let mut blob = Blob::new();
                    blob.edit().set_bytes(sent.as_bytes());
                    let echoed = block_on(client.echo(Request::new(blob).with_timeout(PATIENCE)));
                    if let Err(status) = &echoed {
                        println!("{sent} failed: {status}");
                    }
                    let mut seen = seen.lock().expect("no call panics");
                    seen.greeted += 1;
                    seen.longest = seen.longest.max(longest);
                    seen.echoed.insert(sent, echoed.is_ok());
                }
            });
        }
        happens(&Calling { seen: &seen, clock: Clock::system() });
        is_over.store(true, Ordering::Relaxed);
    });
    seen.into_inner().expect("no call panics")
}

/// None ran twice, what was answered ran, and at most `uncertain` of those that failed did.
pub fn check(seen: &Seen, workers: Vec<Process>, uncertain: usize) {
    let mut ran = HashMap::<String, u64>::new();
    for line in workers.into_iter().flat_map(Process::end) {
        if let Some((_, what)) = line.split_once("ran ") {
            *ran.entry(what.to_owned()).or_default() += 1;
        }
    }
    let twice: Vec<_> = ran.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "ran twice: {twice:?}");
    let mut failed = 0;
    for (what, is_answered) in &seen.echoed {
        assert!(!is_answered || ran.contains_key(what), "{what} was answered, and did not run");
        failed += usize::from(!is_answered);
    }
    let Seen { greeted, echoed, longest, .. } = seen;
    println!("{greeted} and {} calls, {failed} failed, {longest:?} at most", echoed.len());
    assert!(failed <= uncertain, "{failed} of {} failed", echoed.len());
}

pub fn target(routers: &[SocketAddr]) -> String {
    let routers: Vec<_> = routers.iter().map(SocketAddr::to_string).collect();
    format!("router://{}", routers.join(","))
}

/// Waits for SIGTERM, for a while: whether it has come.
fn terminated() -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("descriptors").block_on(async {
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        let mut signal = signal.expect("it can be heard");
        tokio::time::timeout(Duration::from_secs(300), signal.recv()).await.is_ok()
    })
}
