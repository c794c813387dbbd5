//! Packets between the services of two hosts over a fabric (ADR 7), with libfabric's provider for
//! kernel sockets.
#![cfg(feature = "fabric")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../facade/replaced/chain.rs"]
#[allow(dead_code, reason = "the tests of replacements use more of it")]
mod chain;
#[path = "../facade/support.rs"]
#[allow(dead_code, reason = "the tests of the facade use more of it")]
mod support;
#[path = "../facade/replaced/traffic.rs"]
#[allow(dead_code, reason = "the tests of replacements have other load")]
mod traffic;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use petasos::config::FabricConfig;
use petasos::{
    Channel, Code, Loop, LoopConfig, Msg, PacketTransport, Request, ServiceChoice, block_on,
};
use petasos_admin::{
    AdminClient, ChangeRequest, GetTransportRequest, GetTransportResponse, StepMut,
};
use petasos_base::sync::{AtomicBool, Ordering};

use chain::Chain;
use support::managed::{Item, WorkClient};
use support::*;
use traffic::{Counting, Done, Load, check};

const FABRIC: [&str; 4] = ["--transport", "fabric", "--provider", "udp"];
/// Two addresses of loopback, as two hosts have them.
const HERE: &str = "127.0.0.1:0";
const THERE: &str = "127.0.0.2:0";

struct Operator(AdminClient);

impl Operator {
    fn of(chain: &Chain) -> Operator {
        let socket = chain.daemon.folder().join("admin.sock");
        let channel = Channel::builder(&format!("grpc+unix://{}", socket.display()));
        Operator(AdminClient::new(block_on(channel.connect()).unwrap()))
    }

    fn change(&self, steps: &[&dyn Fn(StepMut<'_>)]) -> Result<(), (Code, String)> {
        let mut request = ChangeRequest::new();
        let mut edit = request.edit();
        let mut list = edit.steps_mut();
        steps.iter().for_each(|step| step(list.add()));
        let done = block_on(self.0.change(Request::new(request)));
        done.map(drop).map_err(|status| (status.code(), status.message().to_owned()))
    }

    fn transport(&self) -> Msg<GetTransportResponse> {
        let request = Request::new(GetTransportRequest::new());
        block_on(self.0.get_transport(request)).unwrap().into_message()
    }
}

fn fuse(fused: bool) -> impl Fn(StepMut<'_>) {
    move |mut step| {
        step.configure_transport_mut().set_fused(fused);
    }
}

/// An application with many calls outstanding, of all lengths, until it is told to stop.
struct Bursts {
    thread: JoinHandle<Done>,
    is_over: Arc<AtomicBool>,
}

impl Bursts {
    fn start(service: ServiceChoice, server: SocketAddr, first: i64) -> Bursts {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = is_over.clone();
        let thread = std::thread::spawn(move || {
            let event_loop = Loop::new(LoopConfig { service, ..LoopConfig::default() }).unwrap();
            let client = WorkClient::new(event_loop.channel(server));
            let mut done = Done::default();
            while !until.load(Ordering::Relaxed) {
                event_loop.block_on(burst(&client, first, &mut done));
            }
            done
        });
        Bursts { thread, is_over }
    }

    fn stop(self) -> Done {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Lengths of messages: a packet alone, some that share messages, and long ones between them.
const LENGTHS: [usize; 8] = [8, 300, 4, 20_000, 8, 1300, 4, 600];

fn long_item(number: i64) -> Msg<Item> {
    let mut item = item("burst", number);
    item.set_blob(vec![number as u8; LENGTHS[number as usize % LENGTHS.len()]]);
    item
}

async fn burst(client: &WorkClient, first: i64, done: &mut Done) {
    let start = first + done.ids.len() as i64;
    let calls: Vec<_> =
        (start..start + 32).map(|number| (number, client.echo(long_item(number)))).collect();
    for (number, call) in calls {
        match call.await {
            Ok(echoed) => {
                assert!(echoed.blob() == long_item(number).blob(), "it comes back as it was");
                done.ids.push(echoed.number());
            }
            Err(status) => done.failed.push(format!("{:?}: {}", status.code(), status.message())),
        }
    }
}

#[test]
fn fusing_is_switched_while_calls_run_and_no_call_is_lost_or_repeated() {
    let (there, there_at) = Chain::start_reached("fuse-there", THERE, &FABRIC);
    let (here, _) = Chain::start_reached("fuse-here", HERE, &FABRIC);
    let operators = [&here, &there].map(Operator::of);
    let (counts, _server) = Counting::serve(&there.daemon);
    let start = |name, first| Bursts::start(here.daemon.service(name), there_at, first);
    // Numbers begin where lengths do.
    let bursts = [start("one", 0), start("other", 1 << 40)];
    let streams = Load::streams_at(here.daemon.service("streams"), there_at, 1 << 50);
    for round in 0..50 {
        let fused = round % 2 == 1;
        operators.iter().for_each(|one| one.change(&[&fuse(fused)]).unwrap());
        // A plan that fails changes nothing for good.
        let failed = operators[0].change(&[&fuse(!fused), &|mut step| {
            step.remove_policy_mut().set_id(99);
        }]);
        assert!(failed.is_err());
        for operator in &operators {
            let transport = operator.transport();
            assert_eq!((transport.carrier(), transport.fused()), ("fabric", Some(fused)));
        }
        streams.await_more();
    }
    let [one, other] = bursts.map(Bursts::stop);
    check(&counts, &[one, other, streams.stop()]);
}

#[test]
fn hosts_with_packets_over_a_fabric_are_replaced_and_lose_and_repeat_nothing() {
    let (mut there, there_at) = Chain::start_reached("replaced-there", THERE, &FABRIC);
    let (mut here, here_at) = Chain::start_reached("replaced-here", HERE, &FABRIC);
    let (counts, _server) = Counting::serve(&there.daemon);
    let loads = [
        Load::unary_at(here.daemon.service("unary"), there_at, 0),
        Load::streams_at(here.daemon.service("streams"), there_at, 1 << 40),
    ];
    for _ in 0..3 {
        loads.iter().for_each(Load::await_more);
        for (chain, at) in [(&mut there, there_at), (&mut here, here_at)] {
            chain.replace(&[&["--listen", &*at.to_string()], &FABRIC[..]].concat());
            chain.await_former();
        }
    }
    check(&counts, &loads.map(Load::stop));
}

#[test]
fn a_successor_that_cannot_open_the_fabric_does_not_get_to_serve() {
    let (mut there, there_at) = Chain::start_reached("refused-there", THERE, &FABRIC);
    let (here, _) = Chain::start_reached("refused-here", HERE, &FABRIC);
    let (counts, _server) = Counting::serve(&there.daemon);
    let unary = Load::unary_at(here.daemon.service("unary"), there_at, 0);
    let listen = there_at.to_string();
    let other = ["--listen", &*listen, "--transport", "fabric", "--provider", "no-such-provider"];
    let why = there.fail_to_replace(&other);
    assert!(why.contains("no libfabric provider called no-such-provider"), "{why}");
    for _ in 0..10 {
        unary.await_more();
    }
    check(&counts, &[unary.stop()]);
}

#[test]
fn c7_only_peers_on_the_same_fabric_reach_each_other() {
    let (there, there_at) = Chain::start_reached("agree-there", THERE, &FABRIC);
    let (_counts, _server) = Counting::serve(&there.daemon);
    let direct = LoopConfig { service: ServiceChoice::Direct, ..LoopConfig::default() };
    let fabric = FabricConfig { provider: Some("udp".to_owned()), ..FabricConfig::default() };
    let called = |transport: PacketTransport| {
        let event_loop = Loop::new(LoopConfig { transport, ..direct.clone() }).unwrap();
        let client = WorkClient::new(event_loop.channel(there_at));
        let echoed = event_loop.block_on(client.echo(item("direct", 1)));
        echoed.map(|echoed| echoed.number()).map_err(|status| status.code())
    };
    assert_eq!(called(PacketTransport::Fabric(fabric)), Ok(1));
    assert_eq!(called(PacketTransport::Datagrams), Err(Code::Unavailable));
    assert_eq!(called(PacketTransport::Tcp(Default::default())), Err(Code::Unavailable));
}

#[test]
fn the_nic_may_have_another_address_than_control_connections() {
    let there = [&FABRIC[..], &["--nic", "127.0.0.3"]].concat();
    let (there, there_at) = Chain::start_reached("nic-there", THERE, &there);
    let (here, _) = Chain::start_reached("nic-here", HERE, &FABRIC);
    let (counts, _server) = Counting::serve(&there.daemon);
    let unary = Load::unary_at(here.daemon.service("unary"), there_at, 0);
    for _ in 0..10 {
        unary.await_more();
    }
    check(&counts, &[unary.stop()]);
}

#[test]
fn what_is_not_of_a_fabric_is_not_switched() {
    let (here, _) = Chain::start_reached("not-fused", HERE, &[]);
    let operator = Operator::of(&here);
    let (code, why) = operator.change(&[&fuse(true)]).unwrap_err();
    assert_eq!(code, Code::FailedPrecondition);
    assert!(why.contains("do not travel over a fabric"), "{why}");
    let transport = operator.transport();
    assert_eq!((transport.carrier(), transport.fused()), ("datagrams", None));
}
