//! Streams that a policy tries again while nothing was delivered, over both transports.
#![cfg(feature = "grpc")]

use crate::flow;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::{check, chunk, plan};
use crate::refuser::{Refusal, refuser};
use crate::unsteady::*;
use petasos::grpc::GrpcConfig;
use petasos::{Balance, Channel, Code, Server, Status};
use petasos_base::sync::Ordering;

#[derive(Clone, Copy, Debug)]
enum Transport {
    Datagrams,
    Grpc,
}

const BOTH: [Transport; 2] = [Transport::Datagrams, Transport::Grpc];

struct World {
    service: Unsteady,
    server: Server,
    transport: Transport,
}

impl World {
    fn new(transport: Transport, acts: impl IntoIterator<Item = Act>) -> World {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        World::at(any, any, transport, acts)
    }

    /// At an address for datagrams, and one for gRPC.
    fn at(
        datagrams: SocketAddr,
        grpc: SocketAddr,
        transport: Transport,
        acts: impl IntoIterator<Item = Act>,
    ) -> World {
        let service = Unsteady::failing(acts);
        let server = Server::builder().add(FlowServer::new(service.clone()));
        let server = server.listen(datagrams).grpc(grpc, GrpcConfig::default());
        World { service, server: server.start().expect("the ports are free"), transport }
    }

    fn address(&self) -> SocketAddr {
        self.server.local_address().expect("it listens")
    }

    fn grpc_address(&self) -> SocketAddr {
        self.server.grpc_address().expect("it has a gRPC port")
    }

    async fn client(&self, config: &str) -> FlowClient {
        connect(&target(&[self]), config).await
    }
}

fn target(worlds: &[&World]) -> String {
    let (scheme, address): (_, fn(&World) -> SocketAddr) = match worlds[0].transport {
        Transport::Datagrams => ("petasos", World::address),
        Transport::Grpc => ("grpc", World::grpc_address),
    };
    let addresses: Vec<String> = worlds.iter().map(|world| address(world).to_string()).collect();
    format!("{scheme}://{}", addresses.join(","))
}

async fn connect(target: &str, config: &str) -> FlowClient {
    let channel = Channel::builder(target).balance(Balance::RoundRobin).service_config(config);
    FlowClient::new(channel.connect().await.expect("a server is up"))
}

/// Runs a test over each transport; it fails rather than hangs.
fn each<F: Future<Output = ()>>(test: impl Fn(Transport) -> F) {
    BOTH.into_iter().for_each(|transport| once(test(transport)));
}

fn once(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let timed = async { tokio::time::timeout(flow::PATIENCE, test).await };
    runtime.expect("a runtime starts").block_on(timed).expect("it hangs");
}

/// At most so many attempts, after `backoff` seconds each.
fn retries(attempts: u32, backoff: &str, more: &str) -> String {
    format!(
        r#"{{"methodConfig": [{{"name": [{{}}], "retryPolicy": {{
            "maxAttempts": {attempts}, "initialBackoff": "{backoff}s", "maxBackoff": "{backoff}s",
            "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}}}]{more}}}"#
    )
}

const SHORT: &str = "0.002";
const LONG: &str = "1000";

/// So many chunks there and back.
async fn chat(client: &FlowClient, chunks: u32, bytes: usize) -> Result<(), Status> {
    let (mut out, mut back) = client.chat().await?;
    for number in 0..chunks {
        // The other direction has the status.
        if out.send(chunk(number, bytes)).await.is_err() {
            break;
        }
    }
    out.close();
    for number in 0..chunks {
        let chunk = back.message().await?;
        check(&chunk.expect("there is one for each"), number, bytes);
    }
    assert!(back.message().await?.is_none(), "no chunk comes twice");
    Ok(())
}

async fn upload(client: &FlowClient, chunks: u32, bytes: usize) -> Result<u32, Status> {
    let mut upload = client.collect();
    for number in 0..chunks {
        if upload.send(chunk(number, bytes)).await.is_err() {
            break;
        }
    }
    Ok(upload.finish().await?.chunks())
}

fn attempts(previous: &[&str]) -> Vec<Option<String>> {
    let numbers = previous.iter().map(|number| Some((*number).to_owned()));
    std::iter::once(None).chain(numbers).collect()
}

#[test]
fn r20_streams_of_all_kinds_are_tried_again() {
    each(|transport| async move {
        let twice = || [fail(Code::Unavailable), fail(Code::Unavailable)];
        for kind in 0..3 {
            let world = World::new(transport, twice());
            let client = world.client(&retries(3, SHORT, "")).await;
            match kind {
                0 => chat(&client, 5, 1000).await.expect("the third attempt goes well"),
                1 => assert_eq!(upload(&client, 5, 1000).await.expect("likewise"), 5),
                _ => {
                    let mut chunks = client.produce(plan("", 4, 100)).await.expect("it begins");
                    assert_eq!(flow::drain(&mut chunks, 100).await.expect("likewise"), 4);
                }
            }
            assert_eq!(world.service.state().previous, attempts(&["1", "2"]), "{kind}");
        }
    });
}

#[test]
fn r20_what_a_handler_read_before_it_failed_goes_again() {
    each(|transport| async move {
        let act = Act { read: 3, ..fail(Code::Unavailable) };
        let world = World::new(transport, [act.clone(), act]);
        let client = world.client(&retries(3, SHORT, "")).await;
        chat(&client, 5, 20_000).await.expect("the third attempt goes well");
        assert_eq!(world.service.count(), 3);
    });
}

#[test]
fn r20_no_policy_no_other_status_and_no_more_attempts() {
    each(|transport| async move {
        let world = World::new(transport, []);
        world.service.state().always = Some(fail(Code::Unavailable));
        let plain = world.client("{}").await;
        let status = chat(&plain, 2, 10).await.expect_err("nothing retries it");
        assert_eq!((status.code(), world.service.count()), (Code::Unavailable, 1));
        let client = world.client(&retries(3, SHORT, "")).await;
        let status = chat(&client, 2, 10).await.expect_err("it always fails");
        assert_eq!((status.message(), world.service.count()), ("it fails on purpose", 4));
        world.service.state().always = Some(fail(Code::Aborted));
        let status = upload(&client, 2, 10).await.expect_err("the policy does not name it");
        assert_eq!((status.code(), world.service.count()), (Code::Aborted, 5));
    });
}

#[test]
fn r20_nothing_is_tried_again_that_was_delivered() {
    each(|transport| async move {
        let with_head = Act { has_head: true, ..fail(Code::Unavailable) };
        let world = World::new(transport, [with_head]);
        let client = world.client(&retries(3, SHORT, "")).await;
        let (out, mut back) = client.chat().await.expect("it begins");
        let status = back.message().await.expect_err("its head was delivered");
        assert_eq!((status.code(), world.service.count()), (Code::Unavailable, 1));
        assert_eq!(back.metadata().get("to"), Some("you"));
        drop(out);
    });
}

#[test]
fn r20_streams_longer_than_what_is_kept_are_not_tried_again() {
    each(|transport| async move {
        let world = World::new(transport, [Act { read: 9, ..fail(Code::Unavailable) }]);
        let client = world.client(&retries(3, SHORT, "")).await;
        let status = upload(&client, 9, 30_000).await.expect_err("270 kB are not kept");
        assert_eq!((status.code(), world.service.count()), (Code::Unavailable, 1));
        world.service.state().next.push_back(Act { read: 8, ..fail(Code::Unavailable) });
        assert_eq!(upload(&client, 8, 30_000).await.expect("240 kB are"), 8);
        assert_eq!(world.service.count(), 3);
    });
}

#[test]
fn r20_pushback_and_the_budget_hold_for_streams() {
    each(|transport| async move {
        let world = World::new(transport, [push_back(Code::Unavailable, "3")]);
        let pushed = world.client(&retries(5, LONG, "")).await;
        chat(&pushed, 2, 10).await.expect("the server wishes it soon");
        world.service.state().next.push_back(push_back(Code::Unavailable, "-1"));
        assert!(chat(&pushed, 2, 10).await.is_err(), "the server wishes no more");
        assert_eq!(world.service.count(), 3);
        let throttling = r#", "retryThrottling": {"maxTokens": 4, "tokenRatio": 1}"#;
        let bounded = world.client(&retries(5, SHORT, throttling)).await;
        world.service.state().always = Some(fail(Code::Unavailable));
        for _ in 0..20 {
            assert!(chat(&bounded, 1, 10).await.is_err());
        }
        assert_eq!(world.service.count(), 3 + 21);
    });
}

#[test]
fn r20_streams_that_are_given_up_or_late_are_not_tried_again() {
    each(|transport| async move {
        let world = World::new(transport, [fail(Code::Unavailable), fail(Code::Unavailable)]);
        let client = world.client(&retries(3, LONG, "")).await;
        let (out, mut back) = client.chat().await.expect("it begins");
        let waits = tokio::time::timeout(Duration::from_millis(100), back.message()).await;
        assert!(waits.is_err() && world.service.count() == 1, "it waits for its next attempt");
        drop((out, back));
        let opening = client.chat().with_timeout(Duration::from_secs(20));
        let (_out, mut back) = opening.await.expect("it begins");
        let status = back.message().await.expect_err("the next attempt would be too late");
        assert_eq!((status.code(), world.service.count()), (Code::Unavailable, 2));
    });
}

#[test]
fn r20_what_is_sent_and_closed_while_a_stream_waits_goes_with_it() {
    each(|transport| async move {
        let world = World::new(transport, [Act { read: 1, ..fail(Code::Unavailable) }]);
        let client = world.client(&retries(3, "0.1", "")).await;
        let (mut out, mut back) = client.chat().await.expect("it begins");
        out.send(chunk(0, 1000)).await.expect("the first attempt takes it");
        let waits = tokio::time::timeout(Duration::from_millis(30), back.message()).await;
        assert!(waits.is_err(), "it waits for its next attempt");
        for number in 1..4 {
            out.send(chunk(number, 1000)).await.expect("it is kept, or waits");
        }
        out.close();
        assert_eq!(flow::drain(&mut back, 1000).await.expect("it goes well"), 4);
        assert_eq!(world.service.state().previous, attempts(&["1"]));
    });
}

#[test]
fn r20_streams_whose_server_is_gone_are_tried_again_elsewhere() {
    each(|transport| async move {
        let [goes, stays] = [World::new(transport, []), World::new(transport, [])];
        goes.service.state().always = Some(Act { read: FOREVER, ..fail(Code::Internal) });
        let client = connect(&target(&[&goes, &stays]), &retries(5, SHORT, "")).await;
        let mut chats = Vec::new();
        while goes.service.count() == 0 || stays.service.count() == 0 {
            let (mut out, back) = client.chat().await.expect("it begins");
            out.send(chunk(0, 100)).await.expect("it has room");
            chats.push((out, back));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(goes);
        for (out, mut back) in chats {
            out.close();
            assert_eq!(flow::drain(&mut back, 100).await.expect("the other takes it"), 1);
        }
    });
}

/// A stream is begun while no server is there, and one comes later.
async fn begin_before(transport: Transport, config: &str) -> Result<World, Status> {
    let goes = World::new(transport, []);
    let (address, grpc_address) = (goes.address(), goes.grpc_address());
    let client = goes.client(config).await;
    chat(&client, 1, 100).await.expect("the server is up");
    drop(goes);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let begun = async { chat(&client, 3, 100).await };
    let comes = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        World::at(address, grpc_address, transport, [])
    };
    let (begun, world) = tokio::join!(begun, comes);
    begun.map(|()| world)
}

#[test]
fn r20_streams_that_find_no_server_are_tried_again() {
    each(|transport| async move {
        let code = begin_before(transport, "{}").await.err().map(|status| status.code());
        assert_eq!(code, Some(Code::Unavailable), "no policy");
        // The channel itself waits for some time before it connects again.
        let world = begin_before(transport, &retries(5, "0.5", "")).await;
        let world = world.expect("an attempt finds the new server");
        let previous = world.service.state().previous.clone();
        assert!(matches!(&previous[..], [Some(_)]), "{previous:?}");
    });
}

#[test]
fn r20_streams_that_find_no_server_for_long_fail_or_are_late() {
    each(|transport| async move {
        let world = World::new(transport, []);
        let client = world.client(&retries(3, "0.02", "")).await;
        chat(&client, 1, 100).await.expect("the server is up");
        drop(world);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let status = chat(&client, 1, 100).await.expect_err("there is no server");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    });
}

#[test]
fn r20_streams_are_given_no_session_that_is_gone() {
    each(|transport| async move {
        let [goes, stays] = [World::new(transport, []), World::new(transport, [])];
        let client = connect(&target(&[&goes, &stays]), "{}").await;
        while goes.service.count() == 0 || stays.service.count() == 0 {
            chat(&client, 1, 100).await.expect("both are up");
        }
        drop(goes);
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..8 {
            chat(&client, 1, 100).await.expect("the other takes it");
        }
    });
}

async fn check_refusals(refusal: Refusal) {
    let world = World::new(Transport::Grpc, []);
    let (refuser, refused) = refuser(refusal);
    // Without a policy.
    let target = format!("grpc://{},{refuser}", world.grpc_address());
    let client = connect(&target, "{}").await;
    while refused.load(Ordering::SeqCst) < 4 {
        // It may be the only server that is connected.
        let _ = chat(&client, 1, 10).await;
    }
    let (before, reached) = (refused.load(Ordering::SeqCst), world.service.count());
    for _ in 0..20 {
        chat(&client, 3, 1000).await.expect("the other server takes it");
        assert_eq!(upload(&client, 3, 1000).await.expect("likewise"), 3);
    }
    assert_eq!(world.service.count() - reached, 40);
    assert!(world.service.state().previous.iter().all(Option::is_none), "no attempt is counted");
    if matches!(refusal, Refusal::ResetStream) {
        assert!(refused.load(Ordering::SeqCst) > before, "they take turns");
    }
}

#[test]
fn r20_streams_that_grpc_servers_refuse_begin_elsewhere() {
    once(check_refusals(Refusal::ResetStream));
}

#[test]
fn r20_streams_above_the_last_of_a_grpc_server_that_goes_away_begin_elsewhere() {
    once(check_refusals(Refusal::GoAway));
}
