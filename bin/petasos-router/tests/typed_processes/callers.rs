//! A worker's process, and callers that see what becomes of their calls.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use petasos::{
    Channel, Credentials, Request, Response, Security, Server, Status, TlsConfig, block_on,
};
use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, Ordering};

use crate::certificates::Folder;
use crate::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use crate::support::Process;

const PATIENCE: Duration = Duration::from_secs(60);
/// What a router is told that its workers serve.
pub const SERVICE: [&str; 2] = ["--service", "hello.Greeter"];
/// Set in a worker's process: the target of its group.
const GROUP: &str = "PETASOS_TEST_GROUP";
/// Set in a worker's process: the address at which it listens.
const HOST: &str = "PETASOS_TEST_HOST";
/// Set in a worker's process, if the group is sealed: the folder of its certificate.
const FOLDER: &str = "PETASOS_TEST_CERTIFICATE";

/// Where a client or worker is, and the folder of its certificate.
#[derive(Clone, Debug)]
pub struct Place {
    pub ip: IpAddr,
    pub folder: Option<PathBuf>,
}

/// On this host, without a certificate.
impl Default for Place {
    fn default() -> Place {
        Place { ip: Ipv4Addr::LOCALHOST.into(), folder: None }
    }
}

impl Place {
    /// TLS with the certificate, and plaintext without one.
    fn security(&self) -> Security {
        let Some(folder) = &self.folder else {
            return if self.ip.is_loopback() { Security::default() } else { Security::Plaintext };
        };
        let credentials = Credentials::Files(Folder::files(folder));
        Security::Tls(TlsConfig { credentials, allow: None })
    }
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

/// What a worker's process runs; nothing in others.
pub fn run_worker() {
    let Ok(group) = std::env::var(GROUP) else { return };
    let ip: IpAddr = std::env::var(HOST).expect("it is set").parse().expect("an address");
    let place = Place { ip, folder: std::env::var(FOLDER).ok().map(PathBuf::from) };
    let server = Server::builder().add(GreeterServer::new(Telling));
    let listen = SocketAddr::new(ip, 0).to_string();
    let server = server.security(place.security()).listen(listen).join(group);
    let server = server.start().expect("the host has ports");
    while !server.routers().iter().any(|at| at.is_member) {
        std::thread::sleep(Duration::from_millis(2));
    }
    println!("worker: ready");
    // It ends when its parent has, or after a while.
    std::thread::sleep(Duration::from_secs(120));
}

/// A worker, and what it has run. A line is whole or not there, also if the process is killed.
pub fn worker_at(group: &str, place: &Place) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("the test is a program"));
    command.args(["child_worker", "--exact", "--nocapture"]).env(GROUP, group);
    command.env(HOST, place.ip.to_string());
    if let Some(folder) = &place.folder {
        command.env(FOLDER, folder);
    }
    Process::start(command, "worker: ready")
}

/// What callers have seen.
#[derive(Default)]
pub struct Seen {
    greeted: u64,
    /// By what was sent: whether it was answered.
    echoed: HashMap<String, bool>,
    longest: Duration,
}

/// Calls from several threads as long as something happens.
pub fn call_at(group: &str, place: &Place, happens: impl FnOnce(&dyn Fn(u64))) -> Seen {
    let channel = Channel::builder(group).security(place.security()).connect();
    let client = GreeterClient::new(block_on(channel).expect("a router is there"));
    let (seen, is_over) = (Mutex::new(Seen::default()), AtomicBool::new(false));
    let clock = Clock::system();
    let calls = || seen.lock().expect("no call panics").echoed.len() as u64;
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
                    let mut seen = seen.lock().expect("no call panics");
                    seen.greeted += 1;
                    seen.longest = seen.longest.max(longest);
                    seen.echoed.insert(sent, echoed.is_ok());
                }
            });
        }
        happens(&|more| {
            let (begin, end) = (calls(), clock.now() + PATIENCE);
            while calls() < begin + more {
                assert!(clock.now() < end, "calls go on: {} after {begin}", calls());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
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

/// The name of a group with these routers.
pub fn target(routers: &[SocketAddr]) -> String {
    let routers: Vec<_> = routers.iter().map(SocketAddr::to_string).collect();
    format!("router://{}", routers.join(","))
}
