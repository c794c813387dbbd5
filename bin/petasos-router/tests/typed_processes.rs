//! Typed calls while workers and routers, which are processes, are killed.

#[path = "../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;
#[path = "../../../crates/petasos/tests/greeter/generated.rs"]
mod generated;
mod support;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use certificates::Folder;
use generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use petasos::{
    Channel, Credentials, Request, Response, Security, Server, Status, TlsConfig, block_on,
};
use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, Ordering};
use support::{Process, router};

const PATIENCE: Duration = Duration::from_secs(60);
/// Set in a worker's process: the target of its group.
const GROUP: &str = "PETASOS_TEST_GROUP";
const SERVICE: [&str; 2] = ["--service", "hello.Greeter"];
/// Set in a worker's process, if the group is sealed: the folder of its certificate.
const FOLDER: &str = "PETASOS_TEST_CERTIFICATE";

/// TLS with the certificate in a folder; without one, what goes on this host only.
fn security(folder: Option<&Path>) -> Security {
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

/// Not a test of its own: what a worker's process runs.
#[test]
fn child_worker() {
    let Ok(group) = std::env::var(GROUP) else { return };
    let server = Server::builder().add(GreeterServer::new(Telling));
    let folder = std::env::var(FOLDER).ok().map(PathBuf::from);
    let server = server.security(security(folder.as_deref())).listen("127.0.0.1:0").join(group);
    let server = server.start().expect("loopback has ports");
    while !server.routers().iter().any(|at| at.is_member) {
        std::thread::sleep(Duration::from_millis(2));
    }
    println!("worker: ready");
    // It ends when its parent has, or after a while.
    std::thread::sleep(Duration::from_secs(120));
}

/// A worker, and what it has run. A line is whole or not there, also if the process is killed.
fn worker(group: &str) -> Process {
    worker_with(group, None)
}

fn worker_with(group: &str, folder: Option<&Path>) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("the test is a program"));
    command.args(["child_worker", "--exact", "--nocapture"]).env(GROUP, group);
    if let Some(folder) = folder {
        command.env(FOLDER, folder);
    }
    Process::start(command, "worker: ready")
}

/// What callers have seen.
#[derive(Default)]
struct Seen {
    greeted: u64,
    /// By what was sent: whether it was answered.
    echoed: HashMap<String, bool>,
    longest: Duration,
}

/// Calls from several threads as long as something happens.
fn call_while(group: &str, happens: impl FnOnce(&dyn Fn(u64))) -> Seen {
    call_with(group, None, happens)
}

fn call_with(group: &str, folder: Option<&Path>, happens: impl FnOnce(&dyn Fn(u64))) -> Seen {
    let channel = Channel::builder(group).security(security(folder)).connect();
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
fn check(seen: &Seen, workers: Vec<Process>, uncertain: usize) {
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

fn target(routers: &[SocketAddr]) -> String {
    let routers: Vec<_> = routers.iter().map(SocketAddr::to_string).collect();
    format!("router://{}", routers.join(","))
}

#[test]
fn rt15_a_killed_worker_costs_no_call_that_may_run_twice_and_nothing_runs_twice() {
    const KILLS: usize = 4;
    let (_router, address) = router(&[&["--listen", "127.0.0.1:0"][..], &SERVICE].concat());
    let group = target(&[address]);
    let mut workers = vec![worker(&group), worker(&group)];
    let seen = call_while(&group, |until_more| {
        for kill in 0..KILLS {
            until_more(100);
            workers[kill].kill();
            until_more(100);
            workers.push(worker(&group));
        }
        until_more(100);
    });
    // Each of three threads has one call under way.
    check(&seen, workers, 3 * KILLS);
}

/// A group over TLS: what is sealed survives kills as well.
#[test]
fn rt28_kills_cost_no_more_in_a_sealed_group() {
    const KILLS: usize = 2;
    let authority = certificates::Authority::new("ours");
    let [of_router, of_worker, of_client] = ["router", "worker", "client"].map(|name| {
        let folder = Folder::new(&format!("sealed-{name}"));
        folder.write(&authority.pem(&format!("{name}.test")));
        folder
    });
    let files = ["certificate", "key", "authorities"].map(|name| of_router.path().join(name));
    let [certificate, key, authorities] = files.each_ref().map(|it| it.to_str().expect("text"));
    let tls = ["--tls-cert", certificate, "--tls-key", key, "--tls-ca", authorities];
    let named = ["--listen", "127.0.0.1:0", "--worker", "worker.test"];
    let (_router, address) = router(&[&named[..], &tls, &SERVICE].concat());
    let group = target(&[address]);
    let worker = || worker_with(&group, Some(of_worker.path()));
    let mut workers = vec![worker(), worker()];
    let seen = call_with(&group, Some(of_client.path()), |until_more| {
        for kill in 0..KILLS {
            until_more(100);
            workers[kill].kill();
            until_more(100);
            workers.push(worker());
        }
        until_more(100);
    });
    check(&seen, workers, 3 * KILLS);
}

#[test]
fn rt38_a_killed_router_costs_no_call_that_may_run_twice_and_nothing_runs_twice() {
    let listen = ["--listen", "127.0.0.1:0"];
    let (mut active, first) = router(&[&listen[..], &SERVICE].concat());
    let (_standby, second) = router(&[&listen[..], &SERVICE, &["--standby"]].concat());
    let group = target(&[first, second]);
    let workers = vec![worker(&group), worker(&group)];
    let again = first.to_string();
    let seen = call_while(&group, |until_more| {
        until_more(200);
        active.kill();
        until_more(200);
        let back = [&["--listen", &again][..], &SERVICE].concat();
        active = router(&back).0;
        until_more(200);
        // Wherever calls go by now: the other router is there in any case.
        active.kill();
        until_more(200);
    });
    // What a router has given goes on, and what it has not is asked of the other one.
    check(&seen, workers, 0);
}
