//! Interceptors around all kinds of calls, at both ends, over datagrams and gRPC.
#![cfg(feature = "grpc")]

use std::task::{Context, Waker};
use std::time::Duration;

use crate::flow::generated::{Chunk, Flow, FlowClient, FlowServer, Plan, Sum};
use crate::flow::{asking, chunk, plan};
use crate::hooks::*;
use crate::servers::until;
use petasos::grpc::GrpcConfig;
use petasos::intercept::{Direction, Extensions, Side};
use petasos::{Channel, Code, Request, Response, Sender, Server, Status, Streaming};

/// Answers all kinds of calls with what it was asked, and notes that it ran.
struct Plain(Journal);

impl Plain {
    fn ran(&self, extensions: &Extensions) {
        let by = extensions.get::<Verified>().map_or("nobody", |by| &by.0);
        self.0.note(format!("handler, verified {by}"));
    }
}

fn end(out: &mut Sender<Chunk>) {
    out.trailers_mut().append("end", "here").expect("a fine key");
}

impl Flow for Plain {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        self.ran(request.extensions());
        if request.text() == "hold" {
            std::future::pending::<()>().await;
        }
        let mut response = Response::new(request.into_message());
        response.trailers_mut().append("end", "here").expect("a fine key");
        Ok(response)
    }

    async fn produce(&self, plan: Request<Plan>, mut out: Sender<Chunk>) -> Result<(), Status> {
        self.ran(plan.extensions());
        end(&mut out);
        for number in 0..plan.chunks() {
            out.send(chunk(number, 1)).await?;
        }
        Ok(())
    }

    async fn collect(&self, mut chunks: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        self.ran(chunks.extensions());
        while chunks.message().await?.is_some() {}
        let mut response = Response::new(Sum::new());
        response.trailers_mut().append("end", "here").expect("a fine key");
        Ok(response)
    }

    async fn chat(
        &self,
        mut chunks: Streaming<Chunk>,
        mut out: Sender<Chunk>,
    ) -> Result<(), Status> {
        self.ran(chunks.extensions());
        end(&mut out);
        // What is refused ends the call, whatever the handler says of it.
        while let Ok(Some(chunk)) = chunks.message().await {
            if chunk.text() == "panic" {
                panic!("a handler that fails on purpose");
            }
            if chunk.text() != "hold" && out.send(chunk).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unary,
    Upload,
    Download,
    Chat,
}

const KINDS: [Kind; 4] = [Kind::Unary, Kind::Upload, Kind::Download, Kind::Chat];
const SIDES: [Side; 2] = [Side::Client, Side::Server];

impl Kind {
    /// Messages to the server and back.
    fn messages(self) -> (usize, usize) {
        match self {
            Kind::Unary => (1, 1),
            Kind::Upload => (3, 1),
            Kind::Download => (1, 3),
            Kind::Chat => (3, 3),
        }
    }

    async fn call(self, client: &FlowClient) -> Result<(), Status> {
        match self {
            Kind::Unary => {
                let request = Request::new(chunk(1, 1)).with_metadata("from", "me");
                client.echo(request.expect("a fine key")).await.map(drop)
            }
            Kind::Upload => {
                let mut upload = client.collect().with_metadata("from", "me").expect("a fine key");
                for number in 0..3 {
                    if upload.send(chunk(number, 1)).await.is_err() {
                        break;
                    }
                }
                upload.finish().await.map(drop)
            }
            Kind::Download => {
                let request = Request::new(plan("", 3, 1)).with_metadata("from", "me");
                let mut chunks = client.produce(request.expect("a fine key")).await?;
                while chunks.message().await?.is_some() {}
                Ok(())
            }
            Kind::Chat => {
                let opening = client.chat().with_metadata("from", "me").expect("a fine key");
                let (mut out, mut back) = opening.await?;
                for number in 0..3 {
                    let _ = out.send(chunk(number, 1)).await;
                    back.message().await?;
                }
                out.close();
                while back.message().await?.is_some() {}
                Ok(())
            }
        }
    }
}

/// A server on both transports, whose interceptors misbehave at a side if they are told to.
struct World {
    journal: Journal,
    _server: Server,
    client: FlowClient,
}

/// One world for each transport.
async fn worlds(side: Side, how: How) -> Vec<(&'static str, World)> {
    worlds_within(side, how, Duration::from_secs(1000)).await
}

/// Whose calls take so long at most.
async fn worlds_within(side: Side, how: How, time: Duration) -> Vec<(&'static str, World)> {
    let mut worlds = Vec::new();
    for transport in ["datagrams", "grpc"] {
        let journal = Journal::default();
        let spies = |name: &'static str, at: Side| {
            let how = if at == side { how } else { How::Continue };
            journal.spy(name).with(how)
        };
        let server = Server::builder()
            .add(FlowServer::new(Plain(journal.clone())))
            .intercept(spies("server", Side::Server))
            .intercept(journal.spy("within"))
            .listen("127.0.0.1:0")
            .grpc("127.0.0.1:0", GrpcConfig::default())
            .start()
            .expect("loopback has ports");
        let target = match transport {
            "grpc" => format!("grpc://{}", server.grpc_address().expect("it has a port")),
            _ => format!("petasos://{}", server.local_address().expect("it listens")),
        };
        let channel = Channel::builder(&target).intercept(spies("client", Side::Client));
        let channel = channel.timeout(time).connect().await.expect("the server is up");
        let client = FlowClient::new(channel);
        worlds.push((transport, World { journal, _server: server, client }));
    }
    worlds
}

/// Runs a test, which fails rather than hangs.
fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime starts");
    let patience = Duration::from_secs(100);
    runtime.block_on(async { tokio::time::timeout(patience, test).await.expect("it hangs") });
}

impl World {
    /// Waits until both ends have told of the end, and gives what was written.
    fn journal(&self, both: bool) -> Vec<String> {
        let count = |what: &str| self.journal.containing(what);
        until(|| {
            let ends = ["client", "server"].map(|side| count(&format!("{side} ended")));
            let calls = ["client", "server"].map(|side| count(&format!("{side} call")));
            ends == calls && calls[0] == 1 && (!both || calls[1] == 1)
        });
        self.journal.take()
    }
}

fn has(lines: &[String], line: &str) -> usize {
    lines.iter().filter(|known| known.starts_with(line)).count()
}

#[test]
fn every_call_and_message_is_seen_at_both_ends() {
    run(async {
        for how in [How::Continue, How::Yield] {
            for side in SIDES {
                for (transport, world) in worlds(side, how).await {
                    for kind in KINDS {
                        let told = kind.call(&world.client).await;
                        assert_eq!(told, Ok(()), "{transport} {kind:?} {how:?} {side:?}");
                        let lines = world.journal(true);
                        let (requests, responses) = kind.messages();
                        for end in ["client", "server", "within"] {
                            let of = |what: &str| has(&lines, &format!("{end} {what}"));
                            assert_eq!(of("call"), 1, "{transport} {kind:?}: {lines:?}");
                            assert_eq!(of("Request"), requests, "{transport} {kind:?}: {lines:?}");
                            assert_eq!(
                                of("Response"),
                                responses,
                                "{transport} {kind:?}: {lines:?}"
                            );
                            assert_eq!(
                                of("ended OK with here"),
                                1,
                                "{transport} {kind:?}: {lines:?}"
                            );
                        }
                        // What the client's interceptor added has arrived, and what the server's
                        // has found out is with the handler.
                        let handler = "handler, verified within by me via client";
                        assert_eq!(has(&lines, handler), 1, "{transport} {kind:?}: {lines:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn refusals_reach_the_caller_and_no_handler_runs() {
    run(async {
        for (how, code) in [
            (How::Refuse, Code::PermissionDenied),
            (How::WaitAndRefuse, Code::PermissionDenied),
            (How::Panic, Code::Internal),
            (How::WaitAndPanic, Code::Internal),
        ] {
            for side in SIDES {
                for (transport, world) in worlds(side, how).await {
                    for kind in KINDS {
                        let told = kind.call(&world.client).await.map_err(|told| told.code());
                        assert_eq!(told, Err(code), "{transport} {kind:?} {how:?} {side:?}");
                        let lines = world.journal(side == Side::Server);
                        let ended = format!("ended {code}");
                        assert_eq!(has(&lines, &format!("client {ended}")), 1, "{lines:?}");
                        let at_server = usize::from(side == Side::Server);
                        assert_eq!(has(&lines, &format!("server {ended}")), at_server, "{lines:?}");
                        assert_eq!(has(&lines, "within") + has(&lines, "handler"), 0, "{lines:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn a_client_waits_for_its_interceptors_until_the_deadline() {
    run(async {
        let time = Duration::from_millis(30);
        for (transport, world) in worlds_within(Side::Client, How::Wait, time).await {
            for kind in KINDS {
                let told = kind.call(&world.client).await.map_err(|told| told.code());
                assert_eq!(told, Err(Code::DeadlineExceeded), "{transport} {kind:?}");
                let lines = world.journal(false);
                let ended = has(&lines, "client ended DEADLINE_EXCEEDED");
                assert_eq!((ended, lines.len()), (1, 2), "{transport} {kind:?}: {lines:?}");
            }
        }
    });
}

#[test]
fn who_gives_up_a_call_that_waits_for_an_interceptor_ends_it() {
    run(async {
        for (transport, world) in worlds(Side::Client, How::Wait).await {
            for kind in KINDS {
                {
                    let mut call = std::pin::pin!(kind.call(&world.client));
                    let mut context = Context::from_waker(Waker::noop());
                    assert!(call.as_mut().poll(&mut context).is_pending());
                    let lines = world.journal.containing("ended");
                    assert_eq!(lines, 0, "{transport} {kind:?}");
                }
                let lines = world.journal(false);
                let ended = has(&lines, "client ended CANCELLED");
                assert_eq!((ended, lines.len()), (1, 2), "{transport} {kind:?}: {lines:?}");
            }
        }
    });
}

#[test]
fn messages_are_refused_either_way() {
    run(async {
        for direction in [Direction::Request, Direction::Response] {
            for (how, code) in [
                (How::RefuseMessage(direction), Code::PermissionDenied),
                (How::PanicAtMessage(direction), Code::Internal),
            ] {
                for side in SIDES {
                    for (transport, world) in worlds(side, how).await {
                        for kind in KINDS {
                            let told = kind.call(&world.client).await.map_err(|told| told.code());
                            let about = format!("{transport} {kind:?} {how:?} {side:?}");
                            assert_eq!(told, Err(code), "{about}");
                            let lines = world.journal(false);
                            let client = has(&lines, &format!("client ended {code}"));
                            assert_eq!(client, 1, "{about}: {lines:?}");
                            if side == Side::Server {
                                let server = has(&lines, &format!("server ended {code}"));
                                assert_eq!(server, 1, "{about}: {lines:?}");
                            }
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn calls_that_are_given_up_or_late_or_panic_end_once() {
    run(async {
        for (transport, world) in worlds(Side::Client, How::Continue).await {
            let client = &world.client;
            let held = || {
                let request = Request::new(asking(0, "hold"));
                request.with_metadata("from", "me").expect("a fine key")
            };
            let call = client.echo(held());
            until(|| world.journal.containing("handler") == 1);
            drop(call);
            let lines = world.journal(true);
            assert_eq!(has(&lines, "client ended CANCELLED"), 1, "{transport}: {lines:?}");
            assert_eq!(has(&lines, "server ended CANCELLED"), 1, "{transport}: {lines:?}");

            let late = client.echo(held().with_timeout(Duration::from_millis(100))).await;
            assert_eq!(late.expect_err("it is held").code(), Code::DeadlineExceeded);
            let lines = world.journal(true);
            assert_eq!(has(&lines, "client ended DEADLINE_EXCEEDED"), 1, "{transport}: {lines:?}");
            let server = has(&lines, "server ended DEADLINE_EXCEEDED")
                + has(&lines, "server ended CANCELLED");
            assert_eq!(server, 1, "who is first ends it. {transport}: {lines:?}");

            let (mut out, back) = client.chat().await.expect("it begins");
            out.send(asking(0, "hold")).await.expect("it is taken");
            until(|| world.journal.containing("within Request") == 1);
            drop((back, out));
            let lines = world.journal(true);
            assert_eq!(has(&lines, "client ended CANCELLED"), 1, "{transport}: {lines:?}");
            assert_eq!(has(&lines, "server ended"), 1, "{transport}: {lines:?}");

            let (mut out, mut back) = client.chat().await.expect("it begins");
            out.send(asking(0, "panic")).await.expect("it is taken");
            let status = back.message().await.expect_err("the handler panics");
            assert_eq!(status.code(), Code::Internal, "{transport}");
            let lines = world.journal(true);
            assert_eq!(has(&lines, "client ended INTERNAL"), 1, "{transport}: {lines:?}");
            assert_eq!(has(&lines, "server ended INTERNAL"), 1, "{transport}: {lines:?}");
        }
    });
}
