//! What operators see of calls and engines.

use petasos::{Code, Msg, Request, Status, Streaming, block_on};
use petasos_admin::{self as proto, CallStats, StatsResponse};

use super::hostile::{NOBODY, SOCKET, VIEWER, child_of};
use super::operator::Operator;
use crate::support::Daemon;

fn stats(operator: &Operator, application: &str) -> Result<Msg<StatsResponse>, Status> {
    let mut request = proto::StatsRequest::new();
    request.edit().set_application(application);
    operator.ask(request, |client, request| client.stats(request))
}

fn watch(operator: &Operator, interval_ms: u32) -> Result<Streaming<StatsResponse>, Status> {
    let mut request = proto::WatchStatsRequest::new();
    request.edit().set_interval_ms(interval_ms);
    block_on(operator.client.watch_stats(Request::new(request)))
}

fn first(mut stream: Streaming<StatsResponse>) -> Result<Msg<StatsResponse>, Status> {
    block_on(stream.message()).map(|answer| answer.unwrap())
}

fn ended(calls: &CallStats) -> Vec<(&str, u64)> {
    calls.ended().iter().map(|ended| (ended.code(), ended.calls())).collect()
}

const POLICIES: &str = r#"[{"application": "client", "kind": "access", "configuration": {
    "default": "allow",
    "rules": [{"name": "no eve", "action": "deny", "methods": ["greet.Greeter/Greet"],
               "fields": [{"path": "name", "is": {"equals": "eve"}}]}]}}]"#;

#[test]
fn calls_and_engines_are_counted() {
    let daemon = Daemon::start("stats", Some(POLICIES));
    let operator = Operator::of(&daemon);
    assert_eq!(stats(&operator, "").unwrap().applications().len(), 0);
    let server = daemon.serve("server", 200);
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    (0..199).for_each(|_| assert!(client.greet(target, "ann").is_ok()));
    assert_eq!(client.greet(target, "eve"), Err(7), "permission denied");
    let answer = stats(&operator, "").unwrap();
    let [at_server, at_client] = answer.applications() else { panic!("two are attached") };
    assert_eq!((at_server.name(), at_client.name()), ("server", "client"));
    let of = |calls: &CallStats| (calls.method().to_owned(), calls.way().to_owned(), calls.begun());
    let greet = |way: &str, begun| ("greet.Greeter/Greet".to_owned(), way.to_owned(), begun);
    let [served] = at_server.calls() else { panic!("it is called in one way") };
    assert_eq!(of(served), greet("from-local", 199));
    assert_eq!((ended(served), served.under_way()), (vec![("OK", 199)], 0));
    let [made, refused] = at_client.calls() else { panic!("its calls have two ways") };
    assert_eq!((of(made), of(refused)), (greet("to-local", 199), greet("unsent", 1)));
    assert_eq!(ended(refused), [("PERMISSION_DENIED", 1)]);
    assert_eq!(
        (made.request_bytes(), made.response_bytes()),
        (served.request_bytes(), served.response_bytes())
    );
    assert!(made.latency_ns() > 0 && made.request_bytes() > 199 * 8);
    let latency: u64 = made.latency().iter().map(|bucket| bucket.calls()).sum();
    assert_eq!(latency, 199);
    let bounds: Vec<u64> = made.latency().iter().map(|bucket| bucket.latency_max_ns()).collect();
    assert!(bounds.is_sorted() && bounds.last() > Some(&0));
    let [engine] = at_client.engines() else { panic!("it has one engine") };
    // Requests and ends, but the one that the engine has made.
    assert_eq!((engine.kind(), engine.items(), engine.ended()), ("access", 399, 1));
    assert!(engine.sampled_items() <= engine.items());
    // One of them, and what is counted of those that have gone.
    assert_eq!(client.greet(target, "bob"), Ok("hello, bob".to_owned()));
    server.join().unwrap();
    // It is noticed a little later, and a call that begins meanwhile is cancelled.
    while stats(&operator, "client").unwrap().applications_gone() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(client.greet(target, "ann"), Err(14), "the server has gone");
    let answer = stats(&operator, "client").unwrap();
    assert_eq!((answer.applications().len(), answer.applications_gone()), (1, 1));
    let [gone] = answer.gone() else { panic!("the server has served in one way") };
    assert_eq!((gone.way(), ended(gone)), ("from-local", vec![("OK", 200)]));
    let failed = stats(&operator, "shop").map(|_| ()).unwrap_err();
    assert_eq!(failed.code(), Code::NotFound);
}

#[test]
fn engines_costs_are_measured_after_many_turns() {
    let daemon = Daemon::start("costs", Some(r#"[{"application": "*", "kind": "telemetry"}]"#));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    let sampled = || {
        let answer = stats(&operator, "client").unwrap();
        let engine = &answer.applications()[0].engines()[0];
        (engine.sampled_items(), engine.sampled_ns())
    };
    while sampled().0 == 0 {
        (0..100).for_each(|_| assert!(client.greet(target, "ann").is_ok()));
    }
    let (items, nanos) = sampled();
    assert!(nanos > 0, "{items} items");
    assert!(client.greet(target, "stop").is_ok());
    server.join().unwrap();
}

#[test]
fn who_watches_is_told_again_and_again_and_few_watch_at_a_time() {
    let daemon = Daemon::start("watches", None);
    let operator = Operator::of(&daemon);
    let mut stream = watch(&operator, 100).unwrap();
    let next = |stream: &mut Streaming<StatsResponse>| {
        block_on(stream.message()).unwrap().expect("it does not end")
    };
    let earlier = next(&mut stream);
    let _app = daemon.attach("app");
    let later = next(&mut stream);
    assert!(later.time_ns() > earlier.time_ns());
    while next(&mut stream).applications().is_empty() {}
    for wrong in [1, 99, 60_001] {
        let failed = first(watch(&operator, wrong).unwrap()).map(|_| ()).unwrap_err();
        assert_eq!(failed.code(), Code::InvalidArgument, "{wrong}");
    }
    // Seven more, of several connections: a connection has few streams.
    let others: Vec<(Operator, Streaming<StatsResponse>)> = (0..7)
        .map(|_| {
            let other = Operator::of(&daemon);
            let mut stream = watch(&other, 60_000).unwrap();
            next(&mut stream);
            (other, stream)
        })
        .collect();
    let failed = first(watch(&operator, 0).unwrap()).map(|_| ()).unwrap_err();
    assert_eq!(failed.code(), Code::ResourceExhausted);
    drop(others);
    // Their places are free when the service has noticed.
    while first(watch(&operator, 60_000).unwrap()).is_err() {}
    next(&mut stream);
}

/// What somebody sees who calls as the user of this process: of [`child_of`].
#[test]
fn somebody_looks() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let operator = Operator::at(&socket.to_string_lossy()).unwrap();
    let code = |result: Result<Msg<StatsResponse>, Status>| {
        result.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    println!("stats {:?}", code(stats(&operator, "")));
    println!("watch {:?}", code(watch(&operator, 0).and_then(first)));
}

#[test]
fn viewers_see_statistics_and_others_do_not() {
    let daemon = Daemon::start_more("lookers", None, &["--viewer", "uid:65533"]);
    for (user, expected) in [(VIEWER, "Ok"), (NOBODY, "PermissionDenied")] {
        let Some(said) = child_of("admin::stats::somebody_looks", &daemon, user) else { return };
        assert!(said.contains(&format!("stats {expected}\n")), "{said}");
        assert!(said.contains(&format!("watch {expected}\n")), "{said}");
    }
    let audit = Operator::of(&daemon).audit();
    let found: Vec<_> =
        audit.entries().iter().map(|entry| (entry.uid(), entry.method(), entry.status())).collect();
    assert_eq!(
        found,
        [
            (VIEWER, "Stats", "OK"),
            (VIEWER, "WatchStats", "OK"),
            (NOBODY, "Stats", "PERMISSION_DENIED"),
            (NOBODY, "WatchStats", "PERMISSION_DENIED"),
        ]
    );
}
