//! Handlers that ask whether somebody waits for them.
#![cfg(feature = "grpc")]

use crate::flow;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::flow::generated::{Chunk, Flow, FlowClient, FlowServer, Plan, Sum};
use crate::flow::in_time;
use crate::flow::{World, asking, chunk, plan};
use petasos::grpc::GrpcConfig;
use petasos::{
    Cancelled, Channel, Placement, Request, Response, Sender, Server, Status, Streaming,
};
use petasos_base::sync::{AtomicU64, Ordering};

/// A service whose handlers ask, as they are told.
#[derive(Clone, Default)]
struct Asker {
    /// What was asked for by handlers that wait then.
    kept: Arc<Mutex<Vec<Cancelled>>>,
    begun: Arc<AtomicU64>,
    /// Handlers and threads that were told.
    told: Arc<AtomicU64>,
}

impl Asker {
    fn keep(&self, cancelled: Cancelled) {
        assert!(!cancelled.is_cancelled(), "somebody waits");
        self.kept.lock().expect("nothing panics under the lock").push(cancelled);
    }

    /// Whether each that was asked for is over.
    fn kept(&self) -> Vec<bool> {
        let kept = self.kept.lock().expect("nothing panics under the lock");
        kept.iter().map(Cancelled::is_cancelled).collect()
    }

    /// Keeps its thread busy until it is told.
    fn compute(&self, is_cancelled: impl Fn() -> bool) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        until(is_cancelled);
        self.told.fetch_add(1, Ordering::Relaxed);
    }

    fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }
}

impl Flow for Asker {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        match request.text() {
            "keep" => {
                // Several times, as `select!` in a loop does.
                let [first, _] = [request.cancelled(), request.cancelled()];
                self.keep(first);
                pending().await
            }
            "answer" => self.keep(request.cancelled()),
            "yield" => {
                self.keep(request.cancelled());
                flow::yield_once().await;
            }
            "panic" => {
                self.keep(request.cancelled());
                panic!("a handler that fails on purpose");
            }
            "compute" => self.compute(|| request.is_cancelled()),
            "thread" => {
                let asker = self.clone();
                std::thread::spawn(move || asker.compute(|| request.is_cancelled()));
                return pending().await;
            }
            _ => {}
        }
        Ok(Response::new(request.into_message()))
    }

    async fn produce(&self, plan: Request<Plan>, _: Sender<Chunk>) -> Result<(), Status> {
        match plan.how() {
            "compute" => self.compute(|| plan.is_cancelled()),
            _ => {
                self.keep(plan.cancelled());
                pending().await
            }
        }
        Ok(())
    }

    async fn collect(&self, _: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn chat(
        &self,
        mut chunks: Streaming<Chunk>,
        mut out: Sender<Chunk>,
    ) -> Result<(), Status> {
        while let Some(chunk) = chunks.message().await? {
            match chunk.text() {
                "compute" => self.compute(|| chunks.is_cancelled()),
                "answer" => self.keep(chunks.cancelled()),
                _ => {
                    self.keep(chunks.cancelled());
                    pending().await
                }
            }
            out.send(chunk).await?;
        }
        Ok(())
    }
}

/// Waits until something that others do has happened.
fn until(mut happened: impl FnMut() -> bool) {
    let mut ticks = 50_000;
    while !happened() {
        assert!(ticks > 0, "it does not happen");
        ticks -= 1;
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn in_loop() -> (World, Asker) {
    let (world, asker) = (World::bare(), Asker::default());
    world.event_loop.serve(FlowServer::new(asker.clone())).expect("it is the only service");
    (world, asker)
}

#[test]
fn r11_what_a_handler_in_the_loop_has_asked_for_is_told_of_a_cancel() {
    let (world, asker) = in_loop();
    let call = world.client.echo(asking(0, "keep"));
    let produced = world.run(async { world.client.produce(plan("", 1, 1)).await });
    let (mut out, back) = world.run(async { world.client.chat().await.expect("it begins") });
    world.run(async { out.send(asking(0, "keep")).await.expect("it is taken") });
    world.turn();
    assert_eq!(asker.kept(), [false; 3]);
    let woken = Arc::new(AtomicU64::new(0));
    for cancelled in asker.kept.lock().expect("nothing panics under the lock").iter().cloned() {
        let woken = woken.clone();
        world.event_loop.spawn(async move {
            cancelled.await;
            woken.fetch_add(1, Ordering::Relaxed);
        });
    }
    world.turn();
    drop(call);
    world.turn();
    assert_eq!(asker.kept().iter().filter(|over| **over).count(), 1);
    drop((produced, back, out));
    world.turn();
    assert_eq!(asker.kept(), [true; 3]);
    world.turn();
    assert_eq!(woken.load(Ordering::Relaxed), 3);
}

#[test]
fn who_answers_at_once_is_not_taken_for_the_next_handler_in_its_place() {
    for ends in ["answer", "panic"] {
        let (world, asker) = in_loop();
        let over = world.client.echo(asking(0, ends));
        let waits = world.client.echo(asking(0, "keep"));
        world.turn();
        assert_eq!(asker.kept(), [true, false], "{ends}: both came in one turn");
        drop((over, waits));
    }
}

#[test]
fn r10_what_a_handler_in_the_loop_has_asked_for_is_told_of_a_deadline() {
    let (world, asker) = in_loop();
    let late = Request::new(asking(0, "keep")).with_timeout(Duration::from_millis(5));
    let call = world.client.echo(late);
    let late = Request::new(plan("", 1, 1)).with_timeout(Duration::from_millis(5));
    let produced = world.run(async { world.client.produce(late).await });
    world.pass_ms(2);
    assert_eq!(asker.kept(), [false; 2]);
    world.pass_ms(8);
    assert_eq!(asker.kept(), [true; 2]);
    drop((call, produced));
}

#[test]
fn nobody_waits_for_ever_for_what_has_ended_well_or_panicked() {
    let (world, asker) = in_loop();
    world.run(async {
        for text in ["answer", "yield", "answer"] {
            world.client.echo(asking(0, text)).await.expect("it answers");
        }
        world.client.echo(asking(0, "panic")).await.expect_err("it panics");
        let (mut out, mut back) = world.client.chat().await.expect("it begins");
        out.send(asking(0, "answer")).await.expect("it is taken");
        assert!(back.message().await.expect("it goes on").is_some());
        assert_eq!(asker.kept(), [true, true, true, true, false]);
        out.close();
        assert!(back.message().await.expect("it goes on").is_none());
    });
    world.turn();
    assert_eq!(asker.kept(), [true; 5]);
    // What came before does not matter to later handlers in the same slots.
    let call = world.client.echo(asking(0, "keep"));
    world.turn();
    assert!(!asker.kept()[5]);
    drop(call);
    world.turn();
    assert!(asker.kept()[5]);
}

#[test]
fn what_was_asked_for_is_told_of_the_end_of_the_loop() {
    let (world, asker) = in_loop();
    let call = world.client.echo(asking(0, "keep"));
    world.turn();
    assert_eq!(asker.kept(), [false]);
    drop(call);
    drop(world);
    assert_eq!(asker.kept(), [true]);
}

/// A server of both ports, and a client of each.
async fn serve(asker: &Asker, on_workers: bool) -> (Server, Vec<FlowClient>) {
    let server = Server::builder().add(FlowServer::new(asker.clone())).listen("127.0.0.1:0");
    let mut server = server.grpc("127.0.0.1:0", GrpcConfig::default());
    if on_workers {
        for method in ["flow.Flow/Echo", "flow.Flow/Produce", "flow.Flow/Chat"] {
            server = server.place(method, Placement::Worker);
        }
    }
    let server = server.start().expect("loopback has ports");
    let datagrams = format!("petasos://{}", server.local_address().expect("it listens"));
    let grpc = format!("grpc://{}", server.grpc_address().expect("it has a gRPC port"));
    let mut clients = Vec::new();
    for target in [datagrams, grpc] {
        let channel = Channel::connect(&target).await.expect("the server listens");
        clients.push(FlowClient::new(channel));
    }
    (server, clients)
}

#[test]
fn r11_handlers_that_compute_on_workers_see_that_the_caller_has_gone() {
    in_time(|| async {
        let asker = Asker::default();
        let (_server, clients) = serve(&asker, true).await;
        let has_begun = |count| until(|| asker.begun.load(Ordering::Relaxed) == count);
        for (client, round) in clients.iter().zip(0..) {
            let call = client.echo(asking(0, "compute"));
            let produced = client.produce(plan("compute", 1, 1)).await;
            let (mut out, back) = client.chat().await.expect("it begins");
            out.send(asking(0, "compute")).await.expect("it is taken");
            // The request may be anywhere.
            let thread = client.echo(asking(0, "thread"));
            has_begun(4 * round + 4);
            assert_eq!(asker.told(), 4 * round);
            drop((call, produced, back, out, thread));
            until(|| asker.told() == 4 * round + 4);
        }
    });
}

#[test]
fn r10_handlers_that_compute_see_that_their_time_is_over() {
    in_time(|| async {
        for on_workers in [true, false] {
            let asker = Asker::default();
            let (_server, clients) = serve(&asker, on_workers).await;
            let begun = || asker.begun.load(Ordering::Relaxed);
            for client in &clients {
                // On a busy host, time may be over before a handler has begun; and what it answers
                // then may still be in time.
                let before = begun();
                while begun() == before {
                    let late = Request::new(asking(0, "compute"));
                    let _ = client.echo(late.with_timeout(Duration::from_millis(20))).await;
                }
                let before = begun();
                while begun() == before {
                    let late = Request::new(plan("compute", 1, 1));
                    let late = client.produce(late.with_timeout(Duration::from_millis(20))).await;
                    if let Ok(mut late) = late {
                        let _ = late.message().await;
                    }
                }
                until(|| asker.told() == begun());
            }
        }
    });
}

#[test]
fn r11_what_a_handler_has_asked_for_is_told_over_grpc_and_on_workers() {
    in_time(|| async {
        for on_workers in [true, false] {
            let asker = Asker::default();
            let (_server, clients) = serve(&asker, on_workers).await;
            for (client, round) in clients.iter().zip(0..) {
                let call = client.echo(asking(0, "keep"));
                let produced = client.produce(plan("", 1, 1)).await;
                until(|| asker.kept().len() == 3 * round + 2);
                assert_eq!(asker.kept()[3 * round..], [false; 2]);
                drop((call, produced));
                until(|| asker.kept()[3 * round..] == [true; 2]);
                // One that has answered is over, too.
                client.echo(asking(0, "answer")).await.expect("it answers");
                until(|| asker.kept()[3 * round..] == [true; 3]);
            }
        }
    });
}

#[test]
fn a_client_knows_of_no_cancel() {
    let request = Request::new(chunk(1, 1));
    assert!(!request.is_cancelled() && !request.cancelled().is_cancelled());
}
