//! Several runtimes: threads among which the applications of a host are divided.

use std::net::SocketAddr;
use std::process::{Child, Command};
use std::time::Duration;

use petasos::message::Message;
use petasos::{
    Channel, Code, Msg, Request, Server, ServiceChoice, ServiceConfig, Status, Unary, block_on,
};
use petasos_admin::{
    AdminClient, ChangeRequest, ListApplicationsRequest, ListRuntimesRequest, ListRuntimesResponse,
    StepMut,
};
use petasos_base::SystemClock;

use crate::replaced::chain::Chain;
use crate::replaced::traffic::{Counting, Load, check};
use crate::support::managed::{WorkClient, WorkServer};
use crate::support::*;

const PATIENCE: Duration = Duration::from_secs(60);
/// Of the process that serves by itself: where it attaches, and where it serves.
const SOCKET: &str = "PETASOS_TEST_RUNTIMES_SOCKET";
const LISTEN: &str = "PETASOS_TEST_RUNTIMES_LISTEN";

struct Operator(AdminClient);

impl Operator {
    fn of(daemon: &Daemon) -> Operator {
        let socket = daemon.folder().join("admin.sock");
        let channel = Channel::builder(&format!("grpc+unix://{}", socket.display()));
        Operator(AdminClient::new(block_on(channel.connect()).unwrap()))
    }

    fn ask<Q: Message, R: Message>(
        &self,
        request: Msg<Q>,
        method: impl FnOnce(&AdminClient, Request<Q>) -> Unary<R>,
    ) -> Result<Msg<R>, Status> {
        block_on(method(&self.0, Request::new(request))).map(|answer| answer.into_message())
    }

    fn change(&self, steps: &[&dyn Fn(StepMut<'_>)]) -> Result<Vec<String>, (Code, String)> {
        let mut request = ChangeRequest::new();
        let mut edit = request.edit();
        let mut list = edit.steps_mut();
        steps.iter().for_each(|step| step(list.add()));
        let done = self.ask(request, |client, request| client.change(request));
        let failed = |status: Status| (status.code(), status.message().to_owned());
        done.map(|done| done.done().iter().map(|line| line.to_string()).collect()).map_err(failed)
    }

    /// Names and runtimes of the applications, in the order in which they have attached.
    fn placed(&self) -> Vec<(String, u32)> {
        let request = ListApplicationsRequest::new();
        let answer = self.ask(request, |client, request| client.list_applications(request));
        let answer = answer.unwrap();
        answer.applications().iter().map(|one| (one.name().to_owned(), one.runtime())).collect()
    }

    fn runtimes(&self) -> Msg<ListRuntimesResponse> {
        let request = ListRuntimesRequest::new();
        self.ask(request, |client, request| client.list_runtimes(request)).unwrap()
    }

    /// Waits until something holds of where applications are.
    fn await_placed(&self, holds: impl Fn(&[(String, u32)]) -> bool) {
        let clock = SystemClock::default();
        let begun = clock.now();
        loop {
            let placed = self.placed();
            if holds(&placed) {
                return;
            }
            assert!(clock.now() - begun < PATIENCE, "{placed:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Moves an application, and waits until it is there and nothing of it is left elsewhere.
    fn shift(&self, name: &str, to: u32) {
        let moved = self.change(&[&|mut step| {
            step.move_application_mut().set_application(name).set_runtime(to);
        }]);
        moved.unwrap();
        self.await_placed(|placed| {
            let its: Vec<u32> =
                placed.iter().filter(|(its, _)| its == name).map(|(_, at)| *at).collect();
            its == [to]
        });
    }
}

#[test]
fn applications_of_different_runtimes_call_each_other() {
    let daemon = Daemon::start_more("across", None, &["--runtimes", "2"]);
    let operator = Operator::of(&daemon);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        for number in 0..500 {
            assert_eq!(client.echo(item("here", number)).await.unwrap().number(), number);
        }
        let mut long = item("long", 1);
        let blob: Vec<u8> = (0..3 << 20).map(|at| (at * 7 % 251) as u8).collect();
        long.set_blob(&blob);
        assert!(client.echo(long).await.unwrap().blob() == blob);
        let calls: Vec<_> = (0..1000).map(|number| client.echo(item("all", number))).collect();
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().number(), number as i64);
        }
        let mut request = Request::new(item("x", 0));
        request.metadata_mut().append("asked", "politely").unwrap();
        let echoed = client.echo(request).await.unwrap();
        assert_eq!(echoed.metadata().get("seen"), Some("politely"));
        let failed = client.fail(item("not today", 9)).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::FailedPrecondition, "not today"));
        let request = Request::new(item("late", 1)).with_timeout(Duration::from_millis(30));
        let late = client.hold(request).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded);
        drop(client.hold(item("dropped", 1)));
        let mut counted = client.count(item("n", 2000)).await.unwrap();
        for number in 0..2000 {
            assert_eq!(counted.message().await.unwrap().unwrap().number(), number);
        }
        assert!(counted.message().await.unwrap().is_none());
        let mut items = client.sum();
        for number in 0..2000 {
            items.send(item("n", number)).await.unwrap();
        }
        assert_eq!(items.finish().await.unwrap().number(), 1999 * 2000 / 2);
        let (mut out, mut back) = client.chat().await.unwrap();
        for number in 0..300 {
            out.send(item("chat", number)).await.unwrap();
            assert_eq!(back.message().await.unwrap().unwrap().number(), number);
        }
    });
    let mut placed = operator.placed();
    placed.sort();
    let (one, other) = (placed[0].1, placed[1].1);
    assert_eq!((placed.len(), one + other), (2, 1), "one at each: {placed:?}");
    let answer = operator.runtimes();
    let [first, second] = answer.runtimes() else { panic!("{answer:?}") };
    assert_eq!([first.applications(), second.applications()], [1, 1]);
    assert!(second.processor_ns().unwrap() > 0, "its thread has worked");
}

#[test]
fn an_application_that_moves_loses_and_repeats_nothing() {
    let daemon = Daemon::start_more("moves", None, &["--runtimes", "2"]);
    let operator = Operator::of(&daemon);
    let (counts, server) = Counting::serve(&daemon);
    let loads = [
        Load::unary(&daemon, &server, "unary", 0),
        Load::streams(&daemon, &server, "streams", 1 << 40),
    ];
    loads.iter().for_each(Load::await_more);
    let apps = ["server", "unary", "streams"];
    for round in 0..12 {
        for name in apps {
            let placed = operator.placed();
            let at = placed.iter().find(|(its, _)| its == name).unwrap().1;
            operator.shift(name, 1 - at);
        }
        assert!(operator.placed().len() == apps.len(), "round {round}");
    }
    check(&counts, &loads.map(Load::stop));
}

#[test]
fn a_runtime_that_is_removed_is_left_and_nothing_is_lost() {
    let daemon = Daemon::start("removed", None);
    let operator = Operator::of(&daemon);
    let (counts, server) = Counting::serve(&daemon);
    let loads = [
        Load::unary(&daemon, &server, "unary", 0),
        Load::streams(&daemon, &server, "streams", 1 << 40),
    ];
    loads.iter().for_each(Load::await_more);
    for _ in 0..5 {
        let added = operator
            .change(&[&|mut step| {
                step.add_runtime_mut();
            }])
            .unwrap();
        assert_eq!(added, ["added runtime 1"]);
        operator.shift("server", 1);
        operator.shift("unary", 1);
        operator
            .change(&[&|mut step| {
                step.remove_runtime_mut().set_id(1);
            }])
            .unwrap();
        operator.await_placed(|placed| placed.iter().all(|(_, at)| *at == 0));
        // Nothing is placed there any more, and its number is that of no runtime.
        let clock = SystemClock::default();
        let begun = clock.now();
        while operator.runtimes().runtimes().len() > 1 {
            assert!(clock.now() - begun < PATIENCE, "{:?}", operator.runtimes());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    check(&counts, &loads.map(Load::stop));
}

#[test]
fn a_dedicated_runtime_has_the_applications_of_its_name_alone() {
    let options = ["--runtimes", "2", "--dedicated-runtime", "server", "--cpus", "0"];
    let daemon = Daemon::start_more("dedicated", None, &options);
    let operator = Operator::of(&daemon);
    let servers = ["server", "server", "one", "two"].map(|name| daemon.server(name));
    let event_loop = daemon.event_loop("three");
    for server in &servers {
        let client = client(&event_loop, server);
        event_loop.block_on(async {
            assert_eq!(client.echo(item("x", 1)).await.unwrap().number(), 1);
        });
    }
    let mut placed = operator.placed();
    placed.sort();
    for (name, at) in &placed {
        assert_eq!(name == "server", *at == 2, "{placed:?}");
    }
    let answer = operator.runtimes();
    let [first, second, third] = answer.runtimes() else { panic!("{answer:?}") };
    assert_eq!((first.cpu(), second.cpu()), (Some(0), None));
    assert_eq!(first.applications() + second.applications(), 3);
    assert!(first.applications() > 0 && second.applications() > 0);
    assert_eq!((third.dedicated_to(), third.applications()), ("server", 2));
}

#[test]
fn what_cannot_be_done_with_runtimes_changes_nothing_and_says_why() {
    let daemon = Daemon::start_more("wrong", None, &["--runtimes", "2"]);
    let operator = Operator::of(&daemon);
    let _server = daemon.server("server");
    let fails = |step: &dyn Fn(StepMut<'_>)| operator.change(&[step]).unwrap_err();
    let (code, why) = fails(&|mut step| {
        step.remove_runtime_mut().set_id(0);
    });
    assert_eq!(code, Code::FailedPrecondition, "{why}");
    let (code, why) = fails(&|mut step| {
        step.remove_runtime_mut().set_id(7);
    });
    assert_eq!((code, why.contains("there is no runtime 7")), (Code::NotFound, true), "{why}");
    let (code, why) = fails(&|mut step| {
        step.pin_runtime_mut().set_id(1).set_cpu(1000);
    });
    assert_eq!(code, Code::FailedPrecondition, "{why}");
    let (_, why) = fails(&|mut step| {
        step.pin_runtime_mut().set_id(1).set_cpu(u32::MAX);
    });
    assert!(why.contains("there is no processor"), "{why}");
    let shift = |mut step: StepMut<'_>, name: &str, to| {
        step.move_application_mut().set_application(name).set_runtime(to);
    };
    let (code, why) = fails(&|step| shift(step, "server", 0));
    assert_eq!(code, Code::FailedPrecondition, "{why}");
    assert!(why.contains("is at runtime 0 already"), "{why}");
    assert_eq!(fails(&|step| shift(step, "nobody", 1)).0, Code::NotFound);
    // A step that fails undoes those before it, and none has begun.
    let (_, why) = operator
        .change(&[
            &|mut step| {
                step.add_runtime_mut();
            },
            &|mut step| {
                step.pin_runtime_mut().set_id(1).set_cpu(0);
            },
            &|step| shift(step, "server", 2),
            &|mut step| {
                step.remove_runtime_mut().set_id(1);
            },
            &|step| shift(step, "nobody", 1),
        ])
        .unwrap_err();
    assert!(why.starts_with("step 5 of 5") && why.ends_with("were undone"), "{why}");
    let answer = operator.runtimes();
    let [_, second] = answer.runtimes() else { panic!("{answer:?}") };
    assert_eq!((second.cpu(), second.is_leaving()), (None, false));
    assert_eq!(operator.placed(), [("server".to_owned(), 0)]);
}

#[test]
fn calls_to_and_from_other_hosts_reach_all_runtimes() {
    let runtimes = |name| ["--dedicated-runtime", name];
    let arguments = [&["--listen", "127.0.0.2:0"][..], &runtimes("server")].concat();
    let (there, address) = Daemon::start_saying("there", None, &arguments, "at petasos://");
    let arguments =
        [&["--listen", "127.0.0.1:0"][..], &runtimes("unary"), &runtimes("streams")].concat();
    let here = Daemon::start_more("here", None, &arguments);
    let (counts, _server) = Counting::serve(&there);
    let address = address.parse().unwrap();
    let loads = [
        Load::unary_at(here.service("unary"), address, 0),
        Load::streams_at(here.service("streams"), address, 1 << 40),
    ];
    for _ in 0..10 {
        loads.iter().for_each(Load::await_more);
    }
    let (placed_here, placed_there) = (Operator::of(&here).placed(), Operator::of(&there).placed());
    assert_eq!(placed_there, [("server".to_owned(), 1)]);
    assert_eq!(placed_here.len(), 2);
    assert!(placed_here.iter().all(|(_, at)| *at > 0), "{placed_here:?}");
    check(&counts, &loads.map(Load::stop));
    // A long message, and a server that takes no images.
    let event_loop = here.event_loop("unary");
    let there = plain_server();
    let client = WorkClient::new(event_loop.channel(there.local_address().unwrap()));
    event_loop.block_on(async {
        let mut long = item("long", 1);
        long.set_blob(vec![7; 1 << 20]);
        assert_eq!(client.echo(long).await.unwrap().blob().len(), 1 << 20);
        let mut counted = client.count(item("n", 500)).await.unwrap();
        for number in 0..500 {
            assert_eq!(counted.message().await.unwrap().unwrap().number(), number);
        }
    });
}

/// A process that serves at an address, as an application `other`, until it is killed.
struct Other(Child);

impl Other {
    fn start(daemon: &Daemon, listen: SocketAddr) -> Other {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "runtimes::a_process_of_its_own_serves"]);
        command.env(SOCKET, daemon.folder().join("socket")).env(LISTEN, listen.to_string());
        command.stdout(std::process::Stdio::null());
        Other(command.spawn().unwrap())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits until it serves.
    fn await_served(daemon: &Daemon, listen: SocketAddr) {
        let clock = SystemClock::default();
        let begun = clock.now();
        let echoed = async || {
            let channel = Channel::builder(&format!("petasos://{listen}"));
            let channel = channel.service(daemon.service("caller")).connect().await;
            let client = WorkClient::new(channel.map_err(|error| error.to_string())?);
            let echoed = client.echo(item("x", 7)).await.map_err(|status| status.to_string())?;
            Ok::<i64, String>(echoed.number())
        };
        loop {
            match block_on(echoed()) {
                Ok(number) => return assert_eq!(number, 7),
                Err(why) => assert!(clock.now() - begun < PATIENCE, "{why}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What [`Other`] does in its process; without one, nothing.
#[test]
fn a_process_of_its_own_serves() {
    let (Ok(socket), Ok(listen)) = (std::env::var(SOCKET), std::env::var(LISTEN)) else { return };
    let config = ServiceConfig::new(&format!("unix:{socket}")).unwrap();
    let service = ServiceChoice::Managed(config.application("other").unwrap());
    let server = Server::builder().add(WorkServer::new(Worker)).listen(&listen).service(service);
    let _server = server.start().unwrap();
    // Its parent kills it; if that is gone, it ends by itself.
    std::thread::sleep(Duration::from_secs(120));
}

/// An address that is free now.
fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn is_at(placed: &[(String, u32)], runtime: u32) -> bool {
    let its: Vec<u32> =
        placed.iter().filter(|(name, _)| name == "other").map(|(_, at)| *at).collect();
    its == [runtime]
}

#[test]
fn a_process_that_is_killed_while_it_moves_leaves_its_address_to_the_next() {
    let daemon = Daemon::start_more("killed", None, &["--runtimes", "2"]);
    let operator = Operator::of(&daemon);
    let listen = free_address();
    for round in 0..3 {
        let other = Other::start(&daemon, listen);
        Other::await_served(&daemon, listen);
        let placed = operator.placed();
        let at = placed.iter().find(|(name, _)| name == "other").unwrap().1;
        other.signal(rustix::process::Signal::STOP);
        let moved = operator.change(&[&|mut step| {
            step.move_application_mut().set_application("other").set_runtime(1 - at);
        }]);
        moved.unwrap();
        // A second order does nothing.
        let (_, why) = operator
            .change(&[&|mut step| {
                step.move_application_mut().set_application("other").set_runtime(1 - at);
            }])
            .unwrap_err();
        assert!(why.contains("it moves already"), "round {round}: {why}");
        drop(other);
        operator.await_placed(|placed| placed.iter().all(|(name, _)| name != "other"));
    }
}

#[test]
fn another_process_takes_over_when_applications_have_moved() {
    let mut chain = Chain::start("takes-over", &["--runtimes", "2"]);
    let operator = Operator::of(&chain.daemon);
    let listen = free_address();
    let other = Other::start(&chain.daemon, listen);
    Other::await_served(&chain.daemon, listen);
    let placed = operator.placed();
    let at = placed.iter().find(|(name, _)| name == "other").unwrap().1;
    other.signal(rustix::process::Signal::STOP);
    let moved = operator.change(&[&|mut step| {
        step.move_application_mut().set_application("other").set_runtime(1 - at);
    }]);
    moved.unwrap();
    let why = chain.fail_to_replace(&["--runtimes", "2"]);
    assert!(why.contains("applications move to other runtimes"), "{why}");
    other.signal(rustix::process::Signal::CONT);
    operator.await_placed(|placed| is_at(placed, 1 - at));
    Other::await_served(&chain.daemon, listen);
    chain.replace(&["--runtimes", "2"]);
    chain.await_former();
    Other::await_served(&chain.daemon, listen);
}
