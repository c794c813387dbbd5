//! `petasos call`, `list`, `describe` and `health` against a server of this process, over datagrams
//! and gRPC: what works, and each way in which it does not.

mod shelf;
mod support;

use std::net::TcpListener;

use petasos_health::ServingStatus;
use shelf::Running;
use support::{Finished, Petasos, petasos};

const PROTO: [&str; 2] = ["--proto", concat!(env!("CARGO_MANIFEST_DIR"), "/protos/shelf.proto")];

/// The failure of a call that ended with the status of this code.
fn status(finished: &Finished, code: i32) -> &str {
    assert_eq!(finished.code, Some(64 + code), "{finished:?}");
    let line = finished.stderr.lines().find(|line| line.starts_with("petasos: "));
    line.unwrap_or_else(|| panic!("no failure in {finished:?}"))
}

fn call(address: &str, method: &str, more: &[&str]) -> Finished {
    petasos(&[&["call", address, method][..], more].concat())
}

#[test]
fn methods_of_all_kinds_are_called_by_what_the_server_tells() {
    let server = Running::start(true);
    for address in &server.addresses {
        let found = call(address, "shelf.Shelf/Find", &[r#"{"title": "Emma"}"#]);
        assert_eq!(found.success(), "{\"title\":\"Emma\",\"pages\":7}\n");
        let walked = call(address, "shelf.Shelf/Walk", &["-d", r#"{"title": "x", "pages": 3}"#]);
        let expected = "{\"title\":\"x\"}\n{\"title\":\"x\",\"pages\":1}\n\
                        {\"title\":\"x\",\"pages\":2}\n";
        assert_eq!(walked.success(), expected);
        let counted = call(address, "shelf.Shelf/Put", &["{} {\"pages\": 1}\n{}"]);
        assert_eq!(counted.success(), "{\"books\":\"3\"}\n");
        let mut swap = Petasos::start(&["call", address, "shelf.Shelf/Swap", "-d", "@"]);
        swap.feed(b"{\"title\": \"a\"} {\"kind\": \"POEMS\"}");
        assert_eq!(swap.finish().success(), "{\"title\":\"a\"}\n{\"kind\":\"POEMS\"}\n");
    }
}

#[test]
fn methods_are_called_by_files() {
    let server = Running::start(false);
    for address in &server.addresses {
        let found =
            call(address, "shelf.Shelf/Find", &[&["{\"title\":\"x\"}"][..], &PROTO].concat());
        assert_eq!(found.success(), "{\"title\":\"x\",\"pages\":7}\n");
        let untold = call(address, "shelf.Shelf/Find", &["{}"]);
        let line = status(&untold, 12);
        assert!(line.contains("does not tell its schema") && line.contains("--proto"), "{line}");
    }
}

#[test]
fn statuses_come_with_their_details_and_an_exit_status() {
    let server = Running::start(true);
    for address in &server.addresses {
        let more = PROTO.as_slice();
        let finished = call(address, "shelf.Shelf/Find", more);
        assert!(status(&finished, 3).contains("INVALID_ARGUMENT: a title is needed"));
        let detail = "{\"@type\":\"type.googleapis.com/shelf.Key\",\"title\":\"any\"}";
        assert!(finished.stderr.contains(detail), "{finished:?}");
        let finished = call(address, "shelf.Shelf/Find", &[&["--json"], more].concat());
        let error: serde_json::Value = serde_json::from_str(&finished.stderr).expect("JSON");
        assert_eq!(error["error"]["status"], "INVALID_ARGUMENT");
        assert_eq!(error["error"]["details"][0]["title"], "any");
        let lost = call(address, "shelf.Shelf/Find", &[&["{\"title\":\"lost\"}"], more].concat());
        assert!(status(&lost, 5).contains("NOT_FOUND: it is lost"));
        let request = "{\"title\":\"slow\"}";
        let late =
            call(address, "shelf.Shelf/Find", &[&[request, "--timeout", "200ms"], more].concat());
        assert!(status(&late, 4).contains("--timeout"));
    }
}

#[test]
fn a_stream_that_breaks_off_shows_what_came() {
    let server = Running::start(true);
    for address in &server.addresses {
        let torn = call(address, "shelf.Shelf/Walk", &[r#"{"title": "torn", "pages": 2}"#]);
        assert_eq!(torn.stdout.lines().count(), 2, "{torn:?}");
        assert!(status(&torn, 15).contains("DATA_LOSS: pages are missing"));
    }
}

#[test]
fn metadata_go_both_ways() {
    let server = Running::start(true);
    for address in &server.addresses {
        let request = [r#"{"title": "x"}"#, "-H", "from: here", "-v"];
        let found = call(address, "shelf.Shelf/Find", &[&request[..], &PROTO].concat());
        found.success();
        assert!(found.stderr.contains("metadata: to: here"), "{found:?}");
        assert!(found.stderr.contains("trailers: end: fine"), "{found:?}");
    }
}

#[test]
fn wrong_json_is_placed() {
    let server = Running::start(true);
    let address = &server.addresses[1];
    for (request, place) in [
        ("{\"title\": 1}", "line 1, column 2, in `title`: a value that `title` cannot have"),
        (
            "{\n \"seeAlso\": [{\"tilte\": \"\"}]}",
            "line 2, column 15, in `seeAlso[0].tilte`: no field",
        ),
        ("{\"title\"}", "line 1 column 9"),
    ] {
        let finished = call(address, "shelf.Shelf/Walk", &[&[request][..], &PROTO].concat());
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains(place), "{finished:?}");
    }
    let two = call(address, "shelf.Shelf/Find", &[&["{}{}"][..], &PROTO].concat());
    assert!(two.failure().contains("takes one request"), "{two:?}");
}

#[test]
fn what_is_not_there_is_named() {
    let server = Running::start(true);
    for address in &server.addresses {
        let method = call(address, "shelf.Shelf/Fnid", &PROTO);
        let line = status(&method, 12);
        assert!(line.contains("no method `Fnid`") && line.contains("Find, Put"), "{line}");
        let service = call(address, "shelf.Shlef/Find", &[]);
        let line = status(&service, 5);
        assert!(line.contains("knows no `shelf.Shlef`") && line.contains("shelf.Shelf"), "{line}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let nobody = nobody.expect("loopback is there");
    for address in [format!("petasos://{nobody}"), format!("grpc://{nobody}")] {
        let missing = call(&address, "a.B/C", &["--connect-timeout", "2s"]);
        assert!(status(&missing, 14).contains("check the address"), "{missing:?}");
    }
    for address in ["http://a:1", "nowhere"] {
        assert!(call(address, "a.B/C", &[]).failure().contains("HOST:PORT"), "{address}");
    }
}

/// A gRPC port that is dialled as if it spoke datagrams' control protocol.
#[test]
fn whoever_takes_a_grpc_port_for_another_is_told_what_to_type() {
    let server = Running::start(true);
    let wrong = server.addresses[1].replace("grpc://", "petasos://");
    let missed = call(&wrong, "shelf.Shelf/Find", &[r#"{"title": "Emma"}"#]);
    let line = status(&missed, 14);
    assert!(line.contains("gRPC (HTTP/2) port") && line.contains("with grpc:// before"), "{line}");
    let right = wrong.replace("petasos://", "grpc://");
    call(&right, "shelf.Shelf/Find", &[r#"{"title": "Emma"}"#]).success();
}

/// The commands with sessions take no scheme, so they name the command that does.
#[test]
fn commands_without_schemes_name_the_one_for_a_grpc_port() {
    let server = Running::start(true);
    let address = server.addresses[1].trim_start_matches("grpc://");
    let told = format!(
        "petasos: cannot connect to {address}: it looks like a gRPC (HTTP/2) port; call it with \
         `petasos call grpc://{address} …`, or give the address of a `petasos serve --listen`"
    );
    for command in [&["raw", address, "echo", "x"][..], &["demo", "--connect", address]] {
        assert_eq!(petasos(command).failure(), told);
    }
}

#[test]
fn services_are_listed_and_described() {
    let server = Running::start(true);
    for address in &server.addresses {
        let services = petasos(&["list", address]);
        let expected = "grpc.health.v1.Health\ngrpc.reflection.v1.ServerReflection\n\
                        grpc.reflection.v1alpha.ServerReflection\nshelf.Shelf\n";
        assert_eq!(services.success(), expected);
        let methods = petasos(&["list", address, "shelf.Shelf", "--json"]);
        let expected = "[\"shelf.Shelf/Find\",\"shelf.Shelf/Put\",\"shelf.Shelf/Swap\",\
                        \"shelf.Shelf/Walk\"]\n";
        assert_eq!(methods.success(), expected);
        let service = petasos(&["describe", address, "shelf.Shelf"]);
        let text = service.success();
        assert!(text.starts_with("shelf.Shelf is a service:\nservice Shelf {\n"), "{text}");
        assert!(text.contains("  rpc Put(stream Book) returns (Count);\n"), "{text}");
        let message = petasos(&["describe", address, "shelf.Book"]);
        assert!(message.success().contains("google.protobuf.Timestamp printed = 5;"));
        let method = petasos(&["describe", address, "shelf.Shelf/Swap"]);
        let expected = "rpc Swap(stream Book) returns (stream Book);\n";
        assert!(method.success().ends_with(expected), "{method:?}");
        let all = petasos(&["describe", address]);
        assert!(all.success().starts_with("grpc.health.v1.Health is a service:\n"), "{all:?}");
        let nothing = petasos(&["describe", address, "shelf.Nothing"]);
        assert!(status(&nothing, 5).contains("knows no `shelf.Nothing`"), "{nothing:?}");
    }
}

#[test]
fn templates_are_requests() {
    let template =
        petasos(&[&["call", "unused:1", "shelf.Shelf/Walk", "--template"], &PROTO[..]].concat());
    let text = template.success();
    assert!(text.contains("\"printed\": \"1970-01-01T00:00:00Z\""), "{text}");
    let server = Running::start(true);
    let walked = call(&server.addresses[1], "shelf.Shelf/Walk", &[text]);
    assert_eq!(walked.success(), "");
    let described = petasos(&[&["describe", "unused:1", "shelf.Walk"], &PROTO[..]].concat());
    assert!(status(&described, 5).contains("has no `shelf.Walk`"), "{described:?}");
}

#[test]
fn health_is_told_and_watched() {
    let server = Running::start(true);
    server.reporter.set("shelf.Shelf", ServingStatus::SERVING);
    for address in &server.addresses {
        assert_eq!(petasos(&["health", address]).success(), "SERVING\n");
        let unknown = petasos(&["health", address, "a.B"]);
        assert!(status(&unknown, 5).contains("no service `a.B`"), "{unknown:?}");
        let mut watch = Petasos::start(&["health", address, "shelf.Shelf", "--watch"]);
        assert_eq!(watch.line(), "SERVING");
        server.reporter.set("shelf.Shelf", ServingStatus::NOT_SERVING);
        assert_eq!(watch.line(), "NOT_SERVING");
        let now = petasos(&["health", address, "shelf.Shelf", "--json"]);
        assert_eq!(now.code, Some(1), "{now:?}");
        assert_eq!(now.stdout, "{\"service\":\"shelf.Shelf\",\"status\":\"NOT_SERVING\"}\n");
        server.reporter.clear("shelf.Shelf");
        assert_eq!(watch.line(), "SERVICE_UNKNOWN");
        server.reporter.set("shelf.Shelf", ServingStatus::SERVING);
        assert_eq!(watch.line(), "SERVING");
    }
}
