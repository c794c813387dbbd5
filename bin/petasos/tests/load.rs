//! `petasos load` against servers of all kinds, and what it says where there is nothing to report.
//!
//! Tests may run on a machine that is busy, where requests are sent late. That is what the command
//! refuses to report by default, so results are asked for anyway (`CALM`).

mod shelf;
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use shelf::Running;
use support::{Finished, Folder, Petasos, Server, petasos};

/// Whatever the machine does meanwhile.
const CALM: [&str; 7] =
    ["--anyway", "--lag-max", "60s", "--timeout", "60s", "--outstanding", "100000"];
const SHORT: [&str; 4] = ["--duration", "500ms", "--warm-up", "100ms"];

fn load(args: &[&str]) -> Finished {
    petasos(&[&["load"], args, &CALM, &SHORT].concat())
}

fn json(args: &[&str]) -> Value {
    let finished = load(&[args, &["--json"]].concat());
    serde_json::from_str(finished.success()).expect("it is JSON")
}

/// Checks that all requests of a load were answered, and that there are figures.
fn check(json: &Value, name: &str, requests: u64) {
    let contender = &json["contenders"][name];
    assert_eq!((&contender["answered"], &contender["failed"]), (&requests.into(), &0.into()));
    for figure in ["p50_us", "p99_us", "ops_per_s", "stderr"] {
        let is_there = contender[figure].is_number() || figure == "stderr";
        assert!(is_there, "{figure}: {json}");
    }
    assert_eq!(json["curves"][name].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(json["curves"][name][0]["p99_us"], contender["p99_us"]);
    let arrivals = &json["arrivals"];
    for figure in ["rate_error", "p_exponential", "p_independent", "lag_p99_us"] {
        assert!(arrivals[figure].is_number(), "{figure}: {json}");
    }
}

const RATE: [&str; 2] = ["--rate", "400"];

#[test]
fn methods_of_petasos_serve_are_called_by_number_or_name() {
    let server = Server::start(&[]);
    for request in [&["echo", "a text"][..], &["1"]] {
        let args = [&[server.address.as_str()], request, &RATE].concat();
        check(&json(&args), "petasos", 200);
    }
    let url = format!("petasos://{}", server.address);
    let args = [&url, "echo", "--rate", "400", "--transport", "udp", "-c", "2", "--name", "it"];
    check(&json(&args), "it", 200);
    server.await_figure("server.requests", |count| count >= 600);
}

#[test]
fn typed_services_are_called_over_datagrams_and_grpc() {
    let books = Running::start(true);
    for (address, name) in books.addresses.iter().zip(["petasos", "grpc"]) {
        let args = [address, "shelf.Shelf/Find", "{\"title\": \"x\"}", "--rate", "400"];
        check(&json(&args), name, 200);
        let lost = [address, "shelf.Shelf/Find", "{\"title\": \"lost\"}", "--rate", "400"];
        let line = load(&lost).failure().to_owned();
        assert!(line.contains("the first request failed: NOT_FOUND: it is lost"), "{line}");
        let stream = load(&[address, "shelf.Shelf/Walk", "--rate", "400"]);
        assert!(stream.failure().contains("is a stream"), "{stream:?}");
    }
}

/// Serves each connection in a thread of its own: `answer` reads a request and writes the answer,
/// and says whether there was one.
fn serve(answer: impl Fn(&mut BufReader<TcpStream>) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while answer(&mut stream) {}
            });
        }
    });
    address
}

/// Reads lines to an empty one.
fn head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    loop {
        let begin = head.len();
        match stream.read_line(&mut head) {
            Ok(read) if read > 0 => {}
            _ => return None,
        }
        if head[begin..] == *"\r\n" {
            return Some(head);
        }
    }
}

/// An HTTP server that answers with the status that the path names.
fn web(before: impl Fn() + Send + Sync + 'static) -> SocketAddr {
    serve(move |stream| {
        let Some(head) = head(stream) else { return false };
        before();
        let status = head.split(['/', ' ']).nth(2).unwrap_or_default().to_owned();
        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 5\r\n\r\nhello");
        stream.get_mut().write_all(answer.as_bytes()).is_ok()
    })
}

#[test]
fn http_servers_are_sent_gets() {
    let address = web(|| ());
    check(&json(&[&format!("http://{address}/200"), "--rate", "400"]), "http", 200);
    let busy = load(&[&format!("http://{address}/503"), "--rate", "400"]);
    let line = busy.failure();
    assert!(line.contains("first request failed: the response has status 503"), "{line}");
    let line = load(&[&format!("http://{address}/200"), "more", "--rate", "1"]);
    assert!(line.failure().contains("http:// takes no request"), "{line:?}");
}

#[test]
fn redis_servers_are_sent_commands() {
    // Commands of two words: five lines.
    let address = serve(|stream| {
        let mut lines = Vec::new();
        for _ in 0..5 {
            let mut line = String::new();
            if !stream.read_line(&mut line).is_ok_and(|read| read > 0) {
                return false;
            }
            lines.push(line);
        }
        let is_get = lines == ["*2\r\n", "$3\r\n", "GET\r\n", "$1\r\n", "k\r\n"];
        let answer: &[u8] = if is_get { b"$5\r\nvalue\r\n" } else { b"-ERR unknown command\r\n" };
        stream.get_mut().write_all(answer).is_ok()
    });
    let url = format!("redis://{address}");
    check(&json(&[&url, "GET", "k", "--rate", "400"]), "redis", 200);
    let unknown = load(&[&url, "SET", "k", "--rate", "400"]);
    let line = unknown.failure();
    assert!(line.contains("first request failed: ERR unknown command"), "{line}");
}

#[test]
fn a_server_that_stalls_is_seen_by_all_requests_that_are_due_meanwhile() {
    // The server stands still for 400 ms once. 40 of 100 requests are due then.
    let requests = Mutex::new(0);
    let address = web(move || {
        let mut requests = requests.lock().expect("nothing panics");
        *requests += 1;
        if *requests == 40 {
            // The others wait for the lock.
            std::thread::sleep(Duration::from_millis(400));
        }
    });
    let url = format!("http://{address}/200");
    let args = [&url, "--rate", "100", "--arrivals", "fixed", "--duration", "1s", "--warm-up", "0"];
    let finished = petasos(&[&["load"], &args[..], &CALM, &["--json"]].concat());
    let json: Value = serde_json::from_str(finished.success()).expect("it is JSON");
    let of = |name: &str| json["contenders"]["http"][name].as_f64().expect("it is a number");
    // Of one request that waited, the 90th percentile would show nothing.
    assert!(of("p99_us") >= 350_000.0 && of("p90_us") >= 250_000.0, "{json}");
}

#[test]
fn loads_are_a_curve_and_one_of_them_meets_the_objective() {
    let address = web(|| ());
    let url = format!("http://{address}/200");
    let curve = json(&[&url, "--rate", "100..300", "--points", "3", "--objective", "60s"]);
    let met = curve["objective"]["load"].as_f64();
    assert_eq!(met, Some(300.0), "a search begins with its ends: {curve}");
    let curve = json(&[&url, "--rate", "300,100,200", "--objective", "1us"]);
    let points = curve["curves"]["http"].as_array().expect("it is a list");
    let loads: Vec<_> = points.iter().map(|point| point["load"].as_f64()).collect();
    assert_eq!(loads, [Some(100.0), Some(200.0), Some(300.0)]);
    assert_eq!(curve["objective"]["load"], Value::Null);
    assert_eq!(curve["objective"]["missed_at"], 100.0);
    let table = load(&[&url, "--rate", "100..300", "--points", "3"]);
    let table = table.success();
    for word in ["p99.9", "200/s: poisson arrivals, rate off by", "sent late by"] {
        assert!(table.contains(word), "{word}: {table}");
    }
}

#[test]
fn a_trace_is_followed() {
    let folder = Folder::new("load-trace");
    let file = folder.file("times", b"# of another machine\n100.0\n100.1\n100.1\n100.25\n200\n");
    let address = web(|| ());
    let url = format!("http://{address}/200");
    let json = json(&[&url, "--trace", &file]);
    assert_eq!(json["contenders"]["http"]["answered"], 4, "{json}");
    assert_eq!(json["arrivals"]["kind"], "trace");
    assert_eq!(json["arrivals"]["p_exponential"], Value::Null);
    let wrong = folder.file("wrong", b"1\nx\n");
    let line = load(&[&url, "--trace", &wrong]);
    assert!(line.failure().contains("line 2 is no time in seconds"), "{line:?}");
    let none = load(&[&url, "--trace", &folder.path("none")]);
    assert!(none.failure().contains("cannot read"), "{none:?}");
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let address = web(|| std::thread::sleep(Duration::from_millis(50)));
    let url = format!("http://{address}/200");
    let more = ["--connections", "2", "--duration", "1s", "--warm-up", "0"];
    // 40 requests per second can be served.
    let args = [&["load", &url, "--rate", "1000"], &more[..], &CALM].concat();
    let finished = petasos(&args);
    let line = finished.failure();
    assert!(
        line.contains("2 requests were outstanding") && line.contains("lower --rate"),
        "{line}"
    );
    // As points of a curve these are no failure, but have no figures.
    let args = [&["load", &url, "--rate", "1000,2000", "--json"], &more[..], &CALM].concat();
    let finished = petasos(&args);
    let json: Value = serde_json::from_str(finished.success()).expect("it is JSON");
    let point = &json["curves"]["http"][0];
    assert_eq!((&point["p99_us"], &point["is_of_target"]), (&Value::Null, &true.into()));
    assert!(point["refused"].as_str().is_some_and(|text| text.contains("outstanding")));
    assert_eq!((&json["contenders"], &json["arrivals"]), (&serde_json::json!({}), &Value::Null));
}

#[test]
fn a_generator_that_is_late_reports_only_if_it_is_to() {
    let url = format!("http://{}/200", web(|| ()));
    // Who sleeps until a microsecond before is woken later than that.
    let late = ["load", &url, "--rate", "400", "--spin", "1us", "--lag-max", "1us"];
    let args = [&late[..], &SHORT].concat();
    let finished = petasos(&args);
    let line = finished.failure();
    assert!(line.contains("late or more, where 1.00 µs is the most"), "{line}");
    assert!(line.contains("--anyway"), "{line}");
    let finished = petasos(&[&args[..], &["--anyway"]].concat());
    assert!(finished.success().contains("400/s: DOUBTFUL: the generator sent"), "{finished:?}");
    // Nothing is known of the server, so nothing is said of what it can take.
    let late = ["load", &url, "--rate", "400..500", "--spin", "1us", "--lag-max", "1us"];
    let finished = petasos(&[&late[..], &SHORT, &["--objective", "1s"]].concat());
    assert!(finished.failure().contains("late or more"), "{finished:?}");
}

#[test]
fn a_server_that_is_killed_ends_the_load() {
    let server = Server::start(&[]);
    let args = ["load", &server.address, "echo", "--rate", "500", "--duration", "60s"];
    let mut load = Petasos::start(&[&args[..], &CALM, &["--warm-up", "0"]].concat());
    load.hear("load of 500/s ...");
    drop(server);
    let finished = load.finish();
    let line = finished.failure();
    assert!(line.contains("requests failed, the first one with: lost the server at"), "{line}");
}

#[test]
fn a_server_that_is_missing_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound").to_string();
    drop(listener);
    for (scheme, request) in [
        ("petasos://", "echo"),
        ("petasos://", "a.B/C"),
        ("grpc://", "a.B/C"),
        ("http://", ""),
        ("redis://", "PING"),
    ] {
        let url = format!("{scheme}{address}");
        let request = Some(request).filter(|request| !request.is_empty());
        let args: Vec<&str> = [url.as_str()].into_iter().chain(request).chain(RATE).collect();
        let finished = load(&args);
        assert!(finished.code.is_some_and(|code| code > 0), "{finished:?}");
        assert!(finished.stderr.contains("cannot connect to"), "{url}: {finished:?}");
        assert!(finished.stderr.contains(&address), "{url}: {finished:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, what) in [
        (&["http://127.0.0.1:1"][..], "--rate"),
        (&["http://127.0.0.1:1", "--rate", "0"], "is no rate"),
        (&["http://127.0.0.1:1", "--rate", "9..1"], "begins with the lower load"),
        (&["http://127.0.0.1:1", "--rate", "1", "--duration", "0"], "more than nothing"),
        (&["http://127.0.0.1:1", "--rate", "1", "--arrivals", "x"], "possible values"),
        (&["http://127.0.0.1:1", "--trace", "x", "--seed", "1"], "cannot be used with"),
    ] {
        let finished = petasos(&[&["load"], args].concat());
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains(what), "{what}: {finished:?}");
    }
    for (args, what) in [
        (&["https://127.0.0.1:1", "--rate", "1"][..], "`https://` is nothing"),
        (&["127.0.0.1:1", "--rate", "1"], "a call has a method"),
        (&["127.0.0.1:1", "x", "--rate", "1"], "`x` is no method of a service"),
        (&["127.0.0.1:1", "echo", "a", "b", "--rate", "1"], "takes one text"),
        (&["127.0.0.1", "echo", "--rate", "1"], "is no address of a server"),
        (&["redis://127.0.0.1:1/2", "--rate", "1"], "has no path"),
        (&["http://127.0.0.1:1/a#b", "--rate", "1"], "more than a host"),
        (&["http://127.0.0.1:1", "--rate", "1e8", "--duration", "1m"], "are the most"),
        (&["http://127.0.0.1:1", "--rate", "0.1", "--duration", "1s"], "has no request"),
        (&["http://127.0.0.1:1", "--rate", "1", "--failures", "101"], "--failures is 101"),
    ] {
        let finished = petasos(&[&["load"], args].concat());
        assert!(finished.failure().contains(what), "{what}: {finished:?}");
    }
}
