//! What calls carry to groups and back, and how they are routed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use petasos::{
    Channel, Code, Codec, Join, Loop, LoopConfig, Request, Response, Routing, Server, Status,
    block_on,
};

use crate::greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use crate::greeter::*;
use crate::servers::*;

#[test]
fn a_call_carries_what_others_carry() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    let mut request = Request::new(name("there"));
    request.metadata_mut().append("from", "here").expect("a fine key");
    let request = request.with_timeout(Duration::from_secs(30));
    let response = block_on(client.greet(request)).expect("the handler answers");
    assert_eq!(response.text(), "hello, there");
    assert_eq!(response.metadata().get("to"), Some("here"));
    assert_eq!(response.trailers().get("end"), Some("here"));
    let left = service.seen().timeout.expect("it has a deadline");
    assert!(left > Duration::from_secs(20) && left <= Duration::from_secs(30), "{left:?}");
    let refused = block_on(client.greet(name(""))).expect_err("nobody is named");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!((refused.details(), refused.metadata().get("why")), (&[1, 2, 3][..], Some("empty")));
    let failed = block_on(client.greet(name("panic"))).expect_err("it panics");
    assert_eq!(failed.code(), Code::Internal);
    assert!(block_on(client.greet(name("after"))).is_ok());
}

#[test]
fn messages_of_any_length_pass() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    for bytes in [0, 1, 63, 64, 1300, 1400, 1401, 20_000, 3_000_000] {
        let sent: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let response = block_on(client.echo(blob(&sent))).expect("the handler answers");
        assert!(response.bytes() == sent, "{bytes} bytes");
    }
}

/// Says whether a request was compressed.
struct Telling;

impl Greeter for Telling {
    async fn greet(&self, _: Request<Name>) -> Result<Response<Greeting>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(blob(&[request.was_compressed().into()])))
    }
}

#[test]
fn rt31_messages_are_compressed_as_all_workers_take_them() {
    let router = Router::start();
    let server = Server::builder().add(GreeterServer::new(Telling)).listen("127.0.0.1:0");
    let _server = server.join(router.target()).start().expect("loopback has ports");
    until_served(&router.target());
    let client = GreeterClient::new(connect(&router.target()));
    for codec in [Codec::IDENTITY, Codec::GZIP, Codec::LZ4] {
        let request = Request::new(blob(&vec![7; 100_000])).with_codec(codec);
        let response = block_on(client.echo(request)).expect("the handler answers");
        assert_eq!(response.bytes(), [u8::from(codec != Codec::IDENTITY)], "{codec:?}");
    }
}

#[test]
fn a_deadline_ends_a_call_and_the_worker_takes_others() {
    let service = Service::default();
    let router = Router::bounded("jbsq1");
    let _server = join(&service, &router);
    let client = GreeterClient::new(connect(&router.target()));
    // More than the worker takes at a time: each that is given up has to give its place back.
    for _ in 0..40 {
        let late = Request::new(name("hold")).with_timeout(Duration::from_millis(5));
        let late = block_on(client.greet(late)).expect_err("it waits for longer");
        assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
    }
    let quick = block_on(client.greet(name("quick"))).expect("there is room");
    assert_eq!(quick.text(), "hello, quick");
}

#[test]
fn calls_that_are_given_up_leave_room_for_others() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    for _ in 0..40 {
        let begun = service.seen().begun;
        let dropped = service.seen().dropped;
        let held = client.greet(name("hold"));
        until(|| service.seen().begun > begun);
        drop(held);
        until(|| service.seen().dropped > dropped);
    }
    assert_eq!(
        block_on(client.greet(name("after"))).expect("there is room").text(),
        "hello, after"
    );
}

/// A worker that says who it is.
struct Numbered(u32);

impl Greeter for Numbered {
    async fn greet(&self, _: Request<Name>) -> Result<Response<Greeting>, Status> {
        Ok(Response::new(greeting(&self.0.to_string())))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }
}

fn numbered(number: u32, join: Join) -> Server {
    let server = Server::builder().add(GreeterServer::new(Numbered(number)));
    server.listen("127.0.0.1:0").join(join).start().expect("loopback has ports")
}

fn who(client: &GreeterClient, routing: Routing) -> String {
    let request = Request::new(name("who")).with_routing(routing);
    block_on(client.greet(request)).expect("a worker answers").text().to_owned()
}

#[test]
fn rt5_a_call_chooses_any_worker_the_primary_or_by_key() {
    let router = Router::start();
    let plain = || Join::new(router.target());
    let _servers = [(0, plain()), (1, plain().primary()), (2, plain())]
        .map(|(number, join)| numbered(number, join));
    until_served(&router.target());
    let client = GreeterClient::new(connect(&router.target()));
    let all = ["hello, 0", "hello, 1", "hello, 2"].map(str::to_owned);
    let mut seen = HashSet::new();
    until(|| {
        seen.insert(who(&client, Routing::default()));
        seen.len() == all.len()
    });
    assert_eq!(seen, HashSet::from(all.clone()));
    for _ in 0..20 {
        assert_eq!(who(&client, Routing::to_primary()), "hello, 1");
    }
    let by_key = |key: u32| who(&client, Routing::by_key(&key.to_le_bytes()));
    let first: Vec<String> = (0..60).map(by_key).collect();
    let again: Vec<String> = (0..60).map(by_key).collect();
    // While a worker's feedback is late, its keys may go to others.
    let stay = first.iter().zip(&again).filter(|(first, again)| first == again).count();
    assert!(stay >= 40, "{stay} of 60 keys have the same worker: {first:?} {again:?}");
    assert_eq!(HashSet::from_iter(first), HashSet::from(all), "keys are spread");
}

/// How many of so many calls are answered by a worker of full weight, beside one of a third of it.
fn answered_by_the_heavier(policy: &str, calls: usize) -> usize {
    let router = Router::bounded(policy);
    let join = || Join::new(router.target()).bound(4095);
    let _servers = [numbered(0, join()), numbered(1, join().weight(33))];
    let workers = || router.snapshot().workers;
    // A router gives nothing to who has just joined.
    until(|| workers().iter().filter(|worker| worker.state.limit > 0).count() == 2);
    let mut weights: Vec<_> = workers().iter().map(|worker| worker.state.weight).collect();
    weights.sort_unstable();
    assert_eq!(weights, [33, 100]);
    let client = GreeterClient::new(connect(&router.target()));
    let answers = (0..calls).map(|_| who(&client, Routing::default()));
    answers.filter(|who| who == "hello, 0").count()
}

#[test]
fn workers_get_requests_by_the_weights_that_they_join_with() {
    // 301, but for calls that are sent again because no answer comes soon; with equal weights 200.
    let in_turn = answered_by_the_heavier("rr", 400);
    assert!((260..=340).contains(&in_turn), "{in_turn} of 400");
    // 451 on average. By Hoeffding's bound, one run in 10^11 is further than 90 from that. With
    // equal weights 300 on average, with a standard deviation of 12.
    let at_random = answered_by_the_heavier("random", 600);
    assert!((361..=541).contains(&at_random), "{at_random} of 600");
}

#[test]
fn calls_from_a_loop_are_routed_as_well() {
    let service = Service::default();
    let server = start(&service);
    let caller = Loop::new(LoopConfig::default()).expect("loopback has ports");
    caller.block_on(async {
        let channel = Channel::connect(&target(&server)).await.expect("a router is there");
        let client = GreeterClient::new(channel);
        let calls: Vec<_> = (0..500).map(|call| client.greet(name(&call.to_string()))).collect();
        for (call, greeting) in calls.into_iter().enumerate() {
            let greeting = greeting.await.expect("the worker answers");
            assert_eq!(greeting.text(), format!("hello, {call}"));
        }
    });
    assert!(service.seen().begun >= 500, "all ran");
}

#[test]
fn a_worker_knows_its_callers() {
    #[derive(Default)]
    struct Asking(Arc<Mutex<Vec<String>>>);
    impl Greeter for Asking {
        async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
            let peer = request.peer().map(|peer| format!("{peer:?}"));
            self.0.lock().expect("nothing panics here").push(peer.unwrap_or_default());
            Ok(Response::new(greeting(request.name())))
        }
        async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
            Ok(Response::new(request.into_message()))
        }
    }
    let peers = Arc::default();
    let router = Router::start();
    let server = Server::builder().add(GreeterServer::new(Asking(Arc::clone(&peers))));
    let server = server.listen("127.0.0.1:0").join(router.target());
    let _server = server.start().expect("loopback has ports");
    until_served(&router.target());
    let client = GreeterClient::new(connect(&router.target()));
    for _ in 0..3 {
        block_on(client.greet(name("who"))).expect("the worker answers");
    }
    let peers = peers.lock().expect("nothing panics here");
    assert!(peers.len() >= 3, "{peers:?}");
    assert!(
        peers[0].contains("127.0.0.1") && peers.iter().all(|peer| *peer == peers[0]),
        "{peers:?}"
    );
}

#[test]
fn a_loop_that_another_one_drives_is_a_worker() {
    let router = Router::start();
    let (target, channel) = (router.target(), router.target());
    let listen = Some("127.0.0.1:0".parse().expect("an address"));
    let event_loop = Loop::new(LoopConfig { listen, ..LoopConfig::default() }).expect("it starts");
    event_loop.serve(GreeterServer::new(Numbered(7))).expect("it is served");
    event_loop.join(target.as_str()).expect("a group");
    let descriptor = event_loop.descriptor().expect("there are descriptors");
    let calling = std::thread::spawn(move || {
        until_served(&channel);
        let client = GreeterClient::new(connect(&channel));
        [(); 3].map(|()| who(&client, Routing::default()))
    });
    // As a program would: it sleeps until the descriptor is readable, or the loop wants a turn.
    while !calling.is_finished() {
        let rest = event_loop.turn_ready(16).unwrap_or(Duration::from_millis(10));
        let rest = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: rest.min(Duration::from_millis(10)).as_nanos() as _,
        };
        let fd = rustix::event::PollFd::new(&descriptor, rustix::event::PollFlags::IN);
        let _ = rustix::event::poll(&mut [fd], Some(&rest));
    }
    let at = event_loop.routers();
    assert!(at.len() == 1 && at[0].is_member, "{at:?}");
    assert_eq!(calling.join().expect("the calls end"), ["hello, 7"; 3]);
}

#[test]
fn a_loop_that_nobody_can_dial_joins_no_group() {
    let event_loop = Loop::new(LoopConfig::default()).expect("it starts");
    let refused = event_loop.join("router://127.0.0.1:1").expect_err("it does not listen");
    assert!(matches!(refused, petasos::StartError::JoinWithoutListening), "{refused}");
    let wrong = event_loop.join("petasos://127.0.0.1:1").expect_err("it is no group");
    assert!(matches!(wrong, petasos::StartError::Group(_)), "{wrong}");
}
