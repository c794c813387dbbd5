//! `petasos serve` with real processes: how it starts, what it survives, how it ends.

mod support;

use rustix::process::Signal;
use support::{Folder, Petasos, Server, petasos};

#[test]
fn a_port_in_use_is_named_with_advice() {
    let first = Server::start(&[]);
    let second = petasos(&["serve", "--listen", &first.address]);
    let line = second.failure();
    assert!(line.contains("is in use by another program; choose another port"), "{line}");
    assert_eq!(first.call(&["echo", "undisturbed"]).success(), "undisturbed\n");
}

#[test]
fn an_address_of_another_host_is_named_with_advice() {
    let finished = petasos(&["serve", "--plaintext", "--listen", "192.0.2.1:7411"]);
    assert!(finished.failure().contains("is not an address of this host"), "{finished:?}");
}

#[test]
fn signals_and_the_end_of_input_end_it_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start(&[]);
        server.process.send(signal);
        let finished = server.process.finish();
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert!(finished.stderr.contains("finishing what has begun"), "{finished:?}");
    }
    let mut server = Server::start(&["--until-stdin-closes", "--endpoints", "3"]);
    assert_eq!(server.call(&["echo", "x"]).success(), "x\n");
    server.process.close_stdin();
    assert_eq!(server.process.finish().code, Some(0));
}

const TYPED: [&str; 4] = ["--typed", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];

/// A server with typed services, and their targets over datagrams and gRPC.
fn start_typed(more: &[&str]) -> (Server, [String; 2]) {
    let mut server = Server::start(&[&TYPED, more].concat());
    let target = |process: &mut Petasos| {
        let line = process.line();
        line.strip_prefix("typed services on ").expect("it says where").to_owned()
    };
    let targets = [target(&mut server.process), target(&mut server.process)];
    (server, targets)
}

#[test]
fn typed_services_tell_their_schema_and_health_and_share_the_store() {
    let (server, targets) = start_typed(&[]);
    assert!(targets[0].starts_with("petasos://") && targets[1].starts_with("grpc://"));
    for (key, target) in (7..).zip(&targets) {
        let listed = petasos(&["list", target]);
        for service in ["petasos.demo.v1.Echo", "petasos.demo.v1.KeyValue", "grpc.health"] {
            assert!(listed.success().contains(service), "{listed:?}");
        }
        let described = petasos(&["describe", target, "petasos.demo.v1.KeyValue"]);
        assert!(described.success().contains("rpc Get(Key) returns (Value)"), "{described:?}");
        assert_eq!(petasos(&["health", target]).success(), "SERVING\n");
        let call = |method, request: &str| {
            petasos(&["call", target, &format!("petasos.demo.v1.{method}"), request])
        };
        let pair = format!("{{\"key\": {key}, \"value\": \"c2V2ZW4=\"}}");
        assert_eq!(call("KeyValue/Put", &pair).success(), "{}\n");
        let got = call("KeyValue/Get", &format!("{{\"key\": {key}}}"));
        assert_eq!(got.success(), "{\"value\":\"c2V2ZW4=\"}\n");
        assert_eq!(server.call(&["get", &key.to_string()]).success(), "seven\n");
        let missing = call("KeyValue/Get", "{\"key\": 1}");
        assert!(missing.stderr.contains("NOT_FOUND: no value under key 1"), "{missing:?}");
        let texts = call("Echo/Chat", "{\"text\": \"a\"} {\"text\": \"b\"}");
        assert_eq!(texts.success(), "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
    }
}

#[test]
fn a_full_store_refuses_typed_values() {
    let (_server, targets) = start_typed(&["--memory-max", "64"]);
    let pair = "{\"key\": 1, \"value\": \"eA==\"}";
    let full = petasos(&["call", &targets[0], "petasos.demo.v1.KeyValue/Put", pair]);
    assert!(full.stderr.contains("RESOURCE_EXHAUSTED: the store has no room"), "{full:?}");
}

#[test]
fn typed_commands_meet_the_plain_port_with_advice() {
    let server = Server::start(&[]);
    let listed = petasos(&["list", &server.address]);
    assert!(listed.stderr.contains("--typed"), "{listed:?}");
    let taken = Server::start(&["--typed", "127.0.0.1:0"]);
    let again = petasos(&["serve", "--listen", "127.0.0.1:0", "--typed", &taken.address]);
    assert!(again.failure().contains("the typed server does not start"), "{again:?}");
}

#[test]
fn typed_calls_at_hand_are_answered_before_the_end() {
    for at in 0..2 {
        let (server, targets) = start_typed(&[]);
        let mut chat =
            Petasos::start(&["call", &targets[at], "petasos.demo.v1.Echo/Chat", "-d", "@"]);
        server.process.send(Signal::TERM);
        chat.feed(b"{\"text\": \"at last\"}");
        let chat = chat.finish();
        let finished = server.process.finish();
        assert_eq!(finished.code, Some(0), "{finished:?}");
        // It came before the signal, or was refused as a whole.
        assert!(chat.stdout == "{\"text\":\"at last\"}\n" || chat.stdout.is_empty(), "{chat:?}");
    }
}

#[test]
fn a_request_at_hand_is_answered_before_the_end() {
    let server = Server::start(&[]);
    let args = ["raw", &server.address, "method", "5", "zzzzat last", "--timeout", "600000"];
    let waiting = Petasos::start(&args);
    server.await_figure("requests.running", |running| running == 1);
    server.process.send(Signal::TERM);
    assert_eq!(waiting.finish().success(), "at last\n");
    assert_eq!(server.process.finish().code, Some(0));
}

#[test]
fn a_client_that_dies_in_the_middle_leaves_nothing_behind() {
    let folder = Folder::new("dying");
    // 64 values of 4 MiB: most are on their way when the first ones have arrived.
    let line = [vec![b'x'; (4 << 20) - 1], vec![b'\n']].concat();
    let (file, report) = (folder.file("text", &line.repeat(64)), folder.path("report.html"));
    let server = Server::start(&[]);
    let args = ["demo", "--file", &file, "--report", &report, "--connect", &server.address];
    let client = Petasos::start(&args);
    server.await_figure("memory.pool_lent_bytes", |bytes| bytes >= 8 << 20);
    client.send(Signal::KILL);
    assert_eq!(server.call(&["echo", "others are served"]).success(), "others are served\n");
    server.await_figure("memory.pool_lent_bytes", |bytes| bytes < 1 << 20);
    assert_eq!(client.finish().code, None, "the client was killed in the middle");
}
