//! Programs that are killed at random under load: the service goes on, and so do all others.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use petasos::{Loop, LoopConfig, Msg, Server, ServiceChoice, ServiceConfig};
use petasos_base::{Clock, Rng, random_seed};

use crate::support::managed::{Item, WorkClient, WorkServer};
use crate::support::*;

/// Set in the programs that are killed.
const SOCKET: &str = "PETASOS_KILLED_SOCKET";
/// What one of them calls.
const TARGET: &str = "PETASOS_KILLED_TARGET";
/// As long programs are killed, and a while between two.
const KILLING: Duration = Duration::from_secs(8);
const PAUSE_MAX_MS: u64 = 150;
/// As many there are at a time.
const PROGRAMS: usize = 3;

/// A program that serves, and calls a server.
struct Program {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Program {
    fn start(daemon: &Daemon, target: SocketAddr) -> Program {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::a_program_calls_and_serves", "--nocapture"]);
        command.env(SOCKET, daemon.folder().join("socket")).env(TARGET, target.to_string());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Program { child, said }
    }

    /// Waits until it serves. Gives where.
    fn await_served(&mut self) -> SocketAddr {
        let mut line = String::new();
        while self.said.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if let Some((_, address)) = line.trim_end().split_once("serves at ") {
                return address.parse().unwrap();
            }
            line.clear();
        }
        panic!("the program has ended: {:?}", self.child.wait());
    }
}

/// With SIGKILL, at whatever instruction it is.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Some are so long that they are lent while their sender dies.
fn message(number: i64) -> Msg<Item> {
    let mut message = item("x", number);
    message.set_blob(&*vec![number as u8; [10, 5000, 300_000][number as usize % 3]]);
    message
}

/// What a [`Program`] does; without one, nothing.
#[test]
fn a_program_calls_and_serves() {
    let (Ok(socket), Ok(target)) = (std::env::var(SOCKET), std::env::var(TARGET)) else { return };
    let service = || {
        let config = ServiceConfig::new(&format!("unix:{socket}")).unwrap();
        ServiceChoice::Managed(config.application("killed").unwrap())
    };
    let server = Server::builder().add(WorkServer::new(Worker)).listen("127.0.0.1:0");
    let server = server.service(service()).start().unwrap();
    let event_loop = Loop::new(LoopConfig { service: service(), ..LoopConfig::default() }).unwrap();
    let client = WorkClient::new(event_loop.channel(target.parse().unwrap()));
    println!("serves at {}", server.local_address().unwrap());
    event_loop.block_on(async {
        // Its parent kills it; if that is gone, it ends by itself.
        for number in 0..1_000_000 {
            let _ = client.echo(message(number)).await;
            let Ok((mut out, mut back)) = client.chat().await else { continue };
            let _ = out.send(message(number)).await;
            let _ = back.message().await;
        }
    });
}

#[test]
fn programs_that_are_killed_at_random_under_load_cost_others_nothing() {
    let seed = random_seed();
    println!("seed {seed}");
    let policies = r#"[{"application": "*", "kind": "rate_limit",
                        "configuration": {"rate_per_s": "unlimited"}}]"#;
    let daemon = Daemon::start("at-random", Some(policies));
    let server = daemon.server("server");
    let address = server.local_address().unwrap();
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    let (clock, mut rng) = (Clock::system(), Rng::new(seed));
    let mut programs: Vec<Program> = Vec::new();
    let (begin, mut kill_at, mut killed) = (clock.now(), clock.now(), 0);
    let mut number = 0;
    while clock.now() - begin < KILLING || killed < 10 {
        if clock.now() >= kill_at {
            if programs.len() == PROGRAMS {
                drop(programs.swap_remove(rng.below(PROGRAMS as u64) as usize));
                killed += 1;
            }
            programs.push(Program::start(&daemon, address));
            kill_at = clock.now() + Duration::from_millis(rng.below(PAUSE_MAX_MS));
        }
        // Nobody else notices: each call is answered, with what it has sent.
        let echoed = event_loop.block_on(client.echo(message(number)));
        let echoed = echoed.unwrap_or_else(|status| panic!("{status} after {killed}"));
        assert!(echoed.blob() == message(number).blob(), "{number} after {killed}");
        number += 1;
    }
    // Those who are called are killed as well: their callers are told, and call the next.
    for _ in 0..5 {
        let mut called = Program::start(&daemon, address);
        let to = WorkClient::new(event_loop.channel(called.await_served()));
        event_loop.block_on(async {
            to.echo(message(2)).await.unwrap();
            let hold = event_loop.spawn({
                let to = to.clone();
                async move { to.hold(item("never", 0)).await.map(drop) }
            });
            // The call is there before its server dies.
            to.echo(message(1)).await.unwrap();
            drop(called);
            hold.await.expect("it has not panicked").unwrap_err();
        });
    }
    drop(programs);
    assert!(number > 100, "{number} calls beside {killed} that were killed");
    event_loop.block_on(async { client.echo(message(2)).await.unwrap() });
}
