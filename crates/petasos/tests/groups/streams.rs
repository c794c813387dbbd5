//! Streams of channels to groups: sessions with a worker that the router names (RT37).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use petasos::{Channel, Code, Server, block_on};
use petasos_endpoint::{
    CallError, CallSettings, Clock, Completion, Context, Endpoint, EndpointConfig, GroupConfig,
    Node, NodeConfig, Payload, Routing,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::*;
use crate::routers::Router;
use crate::servers::{connect, until};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn router() -> Router {
    Router::of("flow.Flow")
}

/// A worker, which is a member when this returns.
fn worker(service: &Service, router: &Router) -> Server {
    let server = Server::builder().add(FlowServer::new(service.clone()));
    let server = server.listen("127.0.0.1:0").join(router.target());
    let server = server.start().expect("loopback has ports");
    until(|| server.routers().iter().all(|at| at.is_member));
    server
}

#[test]
fn rt37_streams_of_all_kinds_are_placed() {
    in_time(|| async {
        let router = router();
        let services = [(); 2].map(|()| Service::default());
        let _workers = services.each_ref().map(|service| worker(service, &router));
        let channel = Channel::connect(&router.target()).await.expect("the router is there");
        let client = FlowClient::new(channel);
        every_shape(&client).await;
        every_shape(&client).await;
        // They stay with one worker.
        let begun = services.each_ref().map(|service| service.seen().begun);
        assert!(begun.contains(&0), "{begun:?}");
    });
}

#[test]
fn rt37_a_stream_needs_no_call_before_it() {
    in_time(|| async {
        let router = router();
        let service = Service::default();
        let _worker = worker(&service, &router);
        let channel = Channel::builder(&router.target()).connect_lazily().expect("a fine target");
        let client = FlowClient::new(channel);
        chat(&client, 10, 100).await;
        assert_eq!(service.seen().begun, 1);
    });
}

#[test]
fn rt37_channels_are_placed_at_workers_in_turn() {
    in_time(|| async {
        let router = router();
        let services = [(); 3].map(|()| Service::default());
        let _workers = services.each_ref().map(|service| worker(service, &router));
        let mut placed = HashSet::new();
        for _ in 0..3 {
            let client =
                FlowClient::new(Channel::connect(&router.target()).await.expect("it is there"));
            let before = services.each_ref().map(|service| service.seen().begun);
            chat(&client, 1, 1).await;
            let after = services.each_ref().map(|service| service.seen().begun);
            placed.extend((0..3).filter(|at| after[*at] > before[*at]));
        }
        assert_eq!(placed.len(), 3, "{placed:?}");
    });
}

#[test]
fn rt37_streams_go_to_another_worker_when_theirs_has_ended() {
    in_time(|| async {
        let router = router();
        let services = [(); 2].map(|()| Service::default());
        let mut workers = services.each_ref().map(|service| Some(worker(service, &router)));
        let client =
            FlowClient::new(Channel::connect(&router.target()).await.expect("it is there"));
        chat(&client, 1, 1).await;
        let first = services.iter().position(|service| service.seen().begun > 0).expect("one");
        let (mut out, mut back) = client.chat().await.expect("it begins");
        out.send(chunk(0, 1)).await.expect("it is taken");
        assert!(back.message().await.is_ok());
        let server = workers[first].take().expect("it is there");
        assert_eq!(
            server.drain(Duration::from_millis(10)).await.calls,
            1,
            "the open one is cut off"
        );
        drop(server);
        let ended = back.message().await.expect_err("its worker is gone");
        assert_eq!(ended.code(), Code::Unavailable, "{ended}");
        until(|| {
            block_on(async {
                let mut chunks = client.produce(plan("", 1, 1)).await?;
                drain(&mut chunks, 1).await.map(drop)
            })
            .is_ok()
        });
        assert!(services[1 - first].seen().begun > 0, "by the other one");
    });
}

#[test]
fn rt37_without_a_worker_streams_are_unavailable() {
    let router = router();
    let client = Arc::new(FlowClient::new(connect(&router.target())));
    let failed = block_on(async {
        let mut chunks = client.produce(plan("", 1, 1)).await?;
        drain(&mut chunks, 1).await
    });
    let failed = failed.expect_err("nobody is there");
    assert_eq!(failed.code(), Code::Unavailable, "{failed}");
    assert!(failed.message().contains("no worker to connect to"), "{failed}");
    let service = Service::default();
    let _worker = worker(&service, &router);
    until(|| {
        block_on(async {
            let mut chunks = client.produce(plan("", 1, 1)).await?;
            drain(&mut chunks, 1).await.map(drop)
        })
        .is_ok()
    });
}

/// What has become of raw calls.
type Outcomes = Vec<Result<usize, CallError>>;

fn on_ended(outcomes: &mut Outcomes, cx: &mut Context<Outcomes>, done: Completion<'_>) {
    outcomes.push(done.result.map(|payload| {
        let bytes = payload.len();
        if let Payload::Buffer(buf) = payload {
            cx.free(buf);
        }
        bytes
    }));
    cx.free(done.request);
}

/// Workers reject them: the exchanges of one stream could reach several workers.
#[test]
fn rt37_exchanges_that_go_by_way_of_the_router_are_rejected() {
    in_time(|| async {
        let router = router();
        let service = Service::default();
        let _worker = worker(&service, &router);
        let node = Node::start(NodeConfig::default()).expect("it needs no port");
        let local = "127.0.0.1:0".parse().expect("it is an address");
        let io = UdpIo::bind(local, UdpConfig::default()).expect("loopback has ports");
        let config = EndpointConfig::default();
        let mut hostile = Endpoint::new(config, io, Clock::system(), Outcomes::new());
        hostile.attach(&node).expect("the node runs");
        let routers = vec![router.address];
        let group = hostile.open_group(&GroupConfig { routers, ..GroupConfig::default() });
        let group = group.expect("it is attached to its node");
        let mut call = |method: u16, body: &[u8], may_repeat: bool| {
            hostile.run_for(PATIENCE, |_, cx| cx.group_session(group).is_some());
            let cx = hostile.context();
            let session = cx.group_session(group).expect("the router has granted it");
            let mut request = cx.alloc(body.len()).expect("the pool has room");
            request.copy_from_slice(body);
            let routing = Routing { is_idempotent: may_repeat, ..Routing::default() };
            let settings = CallSettings::default();
            cx.enqueue_routed(session, method, request, on_ended, 0, &settings, routing)
                .expect("there is room");
            hostile.run_for(PATIENCE, |outcomes, _| !outcomes.is_empty());
            hostile.state_mut().pop().expect("it has ended")
        };
        // Numbers follow the names: `Chat`, `Collect`, `Echo`, `Produce`. The head of an exchange
        // that opens a stream, garbage, and nothing.
        let open: &[u8] = &[0, 0, 0, 0, 1, 0, 0, 0];
        for may_repeat in [true, false] {
            for method in [1, 2, 4] {
                for body in [open, &[0xff; 3000], &[]] {
                    let ended = call(method, body, may_repeat);
                    assert_eq!(ended, Err(CallError::UnknownMethod), "{method}");
                }
            }
            assert!(call(3, &[0; 8], may_repeat).is_ok(), "a unary method is answered");
        }
        assert_eq!(service.seen().begun, 0);
        every_shape(&FlowClient::new(connect(&router.target()))).await;
    });
}
