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
