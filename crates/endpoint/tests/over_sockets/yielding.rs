//! Two loops on one processor that wait for each other.

use std::net::SocketAddr;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use petasos_endpoint::{Backend, EndpointConfig, Polling};
use petasos_netio_udp::{UdpConfig, UdpIo};

use crate::common::*;

fn udp() -> Backend {
    let io = UdpIo::bind(SocketAddr::new(localhost(), 0), UdpConfig::default());
    io.expect("loopback has ports").into()
}

/// Turns of the client's loop for each call, if both ends wait in this way on one processor.
fn turns_per_call(polling: Polling, calls: u32) -> u32 {
    let config = EndpointConfig { polling, ..EndpointConfig::default() };
    let server_node = node(Some(localhost()));
    let _server = Server::start_over(&server_node, udp, config.clone(), |_| {});
    let client_node = node(None);
    let mut client = endpoint_at(localhost(), config, Outcomes::default());
    client.attach(&client_node).expect("the node runs");
    let address = server_node.local_address().expect("it listens");
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    let mut turns = 0;
    for tag in 0..calls {
        start(&mut client, session, ECHO, tag.into());
        let answered = client.run_for(PATIENCE, |state, _| {
            turns += 1;
            state.list.pop().is_some_and(|(_, outcome)| outcome.is_ok())
        });
        assert!(answered, "call {tag} is answered");
    }
    turns / calls
}

#[test]
fn a_loop_that_yields_lets_its_neighbour_answer() {
    let _watchdog = watchdog("loops on one processor");
    // The threads of this test are made by this one, and stay where it is.
    let mut one = CpuSet::new();
    one.set(sched_getcpu().expect("Linux tells")).expect("there is room for every processor");
    sched_setaffinity(Pid::from_raw(0), &one).expect("it is there already");
    // Long enough for neither to sleep.
    let spin = Duration::from_secs(3600);
    let yielding = turns_per_call(Polling::Yield { spin }, 300);
    let spinning = turns_per_call(Polling::Adaptive { spin }, 10);
    // One that does not yield turns until its time slice is over, for each message.
    assert!(yielding * 10 < spinning, "{yielding} and {spinning} turns for each call");
}
