//! Handlers that keep their loop: counted, and logged with their names.

mod flow;
mod greeter;
mod servers;

use std::cell::RefCell;
use std::time::Duration;

use flow::generated::{Chunk, Flow, FlowServer, Plan, Sum};
use flow::{World, asking, plan};
use petasos::{Request, Response, Sender, SlowTurns, Status, Streaming};
use petasos_base::{Time, VirtualClock};

const MS: Duration = Duration::from_millis(1);

thread_local! {
    /// The time of the loop of this thread, which its handlers pass.
    static TIME: RefCell<VirtualClock> = RefCell::default();
}

/// Lets time pass while a handler runs.
fn take(time: Duration) {
    TIME.with_borrow(|clock| clock.set(clock.now() + time));
}

/// A service whose handlers take their time, as they are told.
struct Slow;

impl Flow for Slow {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        match request.text() {
            "quick" => take(MS / 10),
            "a while" => take(MS / 3),
            "slow" => take(5 * MS),
            "later" => {
                flow::yield_once().await;
                take(7 * MS);
            }
            _ => {}
        }
        Ok(Response::new(request.into_message()))
    }

    async fn produce(&self, _: Request<Plan>, _: Sender<Chunk>) -> Result<(), Status> {
        take(9 * MS);
        Ok(())
    }

    async fn collect(&self, _: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn chat(&self, _: Streaming<Chunk>, _: Sender<Chunk>) -> Result<(), Status> {
        Err(Status::unimplemented("not here"))
    }
}

fn world() -> World {
    let world = World::bare();
    world.event_loop.serve(FlowServer::new(Slow)).expect("it is the only service");
    TIME.with_borrow_mut(|clock| *clock = world.time.clone());
    world
}

impl World {
    fn echo(&self, text: &str) {
        self.run(async { self.client.echo(asking(0, text)).await }).expect("it answers");
    }

    fn produce(&self) {
        self.run(async {
            let mut chunks = self.client.produce(plan("", 1, 1)).await.expect("it begins");
            assert!(chunks.message().await.expect("it goes well").is_none());
        });
    }
}

/// Methods, turns that were slow because of them, and the longest.
fn methods(slow: &SlowTurns) -> Vec<(&str, &str, u64, Duration)> {
    let all = slow.methods.iter();
    let all = all.map(|of| (of.service.as_str(), of.method.as_str(), of.turns, of.longest));
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all
}

#[test]
fn slow_turns_are_counted_and_later_ones_by_method() {
    let world = world();
    for _ in 0..100 {
        world.echo("quick");
    }
    assert_eq!(world.event_loop.slow_turns(), SlowTurns::default());
    world.echo("slow");
    let slow = world.event_loop.slow_turns();
    assert_eq!((slow.turns, slow.longest, slow.methods.len()), (1, 5 * MS, 0));
    world.echo("slow");
    world.echo("later");
    world.produce();
    world.echo("quick");
    let slow = world.event_loop.slow_turns();
    assert_eq!((slow.turns, slow.longest), (4, 9 * MS));
    let all = methods(&slow);
    assert_eq!(all, [("flow.Flow", "Echo", 2, 7 * MS), ("flow.Flow", "Produce", 1, 9 * MS)]);
    let text = slow.to_prometheus();
    for line in [
        "rpc_server_slow_turns_total 4",
        "rpc_server_slow_handlers_total{service=\"flow.Flow\",method=\"Echo\"} 2",
        "rpc_server_slow_handlers_total{service=\"flow.Flow\",method=\"Produce\"} 1",
    ] {
        assert_eq!(text.lines().filter(|known| *known == line).count(), 1, "{line}\n{text}");
    }
}

#[test]
fn of_calls_in_one_turn_the_slow_one_is_named() {
    let world = world();
    world.echo("slow");
    // All of them arrive in one turn, and the quick ones are polled last.
    let calls: Vec<_> = ["", "slow", "quick", "quick", ""]
        .map(|text| world.client.echo(asking(0, text)))
        .into_iter()
        .collect();
    world.turn();
    for call in calls {
        world.run(call).expect("it answers");
    }
    let slow = world.event_loop.slow_turns();
    let echo = methods(&slow)[0];
    // All five are calls of one method in a row.
    assert_eq!((echo.1, echo.2, echo.3), ("Echo", 1, 5 * MS + 2 * MS / 10), "{slow:?}");
    // Some that are quick are slow together. They are of one method, which is named for it.
    let calls: Vec<_> = (0..30).map(|_| world.client.echo(asking(0, "a while"))).collect();
    world.turn();
    for call in calls {
        world.run(call).expect("it answers");
    }
    let later = world.event_loop.slow_turns();
    let (turns, named) = (later.turns - slow.turns, methods(&later)[0].2 - echo.2);
    assert!(turns > 0 && named == turns, "{later:?}");
}

#[test]
fn handlers_are_timed_for_a_minute_after_a_slow_turn() {
    let world = world();
    world.echo("slow");
    let pass = |time| world.time.set(world.time.now() + time);
    pass(Duration::from_secs(59));
    world.echo("slow");
    let counted = || methods(&world.event_loop.slow_turns()).iter().map(|of| of.2).sum::<u64>();
    assert_eq!(counted(), 1);
    pass(Duration::from_secs(61));
    world.echo("quick");
    world.echo("slow");
    assert_eq!((world.event_loop.slow_turns().turns, counted()), (3, 1), "it was not timed");
    world.echo("slow");
    assert_eq!(counted(), 2, "and now it was");
    assert!(world.time.now() > Time::from_nanos(120_000_000_000));
}

#[test]
fn a_server_tells_of_slow_turns_of_all_its_loops() {
    use greeter::generated::{Blob, Greeter, GreeterServer, Greeting, Name};

    struct Blocking;

    impl Greeter for Blocking {
        async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
            std::thread::sleep(5 * MS);
            Ok(Response::new(greeter::greeting(request.name())))
        }

        async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
            Ok(Response::new(request.into_message()))
        }
    }

    let server = petasos::Server::builder().add(GreeterServer::new(Blocking));
    let server = server.listen("127.0.0.1:0").loops(2).start().expect("loopback has ports");
    for client in [servers::client(&server), servers::client(&server)] {
        for _ in 0..2 {
            petasos::block_on(client.greet(greeter::name("x"))).expect("it answers");
        }
    }
    let has_all = |slow: &SlowTurns| {
        let greet = slow.methods.iter().find(|of| of.method == "Greet");
        slow.turns >= 4 && greet.is_some_and(|of| of.turns >= 2 && of.longest >= 5 * MS)
    };
    // The last turn may be at its end still.
    servers::until(|| has_all(&server.slow_turns()));
}

#[cfg(feature = "tracing")]
mod log {
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Keeps the names in what is said of slow turns.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<String>>>);

    struct Writer<'a>(&'a mut Vec<String>);

    impl Visit for Writer<'_> {
        fn record_str(&mut self, field: &Field, value: &str) {
            if field.name() == "method" {
                self.0.push(value.to_owned());
            }
        }

        fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
    }

    impl Subscriber for Recorder {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.is_event()
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut Writer(&mut self.0.lock().expect("no test panics under the lock")));
        }

        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn the_log_names_the_method_once_a_second() {
        let recorder = Recorder::default();
        let _guard = tracing::subscriber::set_default(recorder.clone());
        let world = world();
        let said = || recorder.0.lock().expect("no test panics under the lock").clone();
        world.echo("slow");
        assert_eq!(said(), ["flow.Flow/Echo"]);
        for _ in 0..50 {
            world.echo("slow");
        }
        assert_eq!(said().len(), 1, "they took a quarter of a second");
        world.time.set(world.time.now() + Duration::from_secs(1));
        world.produce();
        assert_eq!(said(), ["flow.Flow/Echo", "flow.Flow/Produce"]);
    }
}
