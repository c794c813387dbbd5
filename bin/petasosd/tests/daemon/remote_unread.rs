//! Streams between two hosts that their receivers do not read, beside other calls (D8).

use std::thread::JoinHandle;
use std::time::Duration;

use petasos::Code;
use petasos_abi::CallNumber;
use petasos_base::SystemClock;

use crate::remote::pair;
use crate::support::*;

/// More than one stream has credit for, less than what the heaps take.
const TEXT_BYTES: usize = 100_000;
/// The caller's last call says so.
const LAST: &str = "last";

/// A server that reads no stream. It greets others, and says as much as it may in each stream, if
/// it says anything.
fn serve_unread(daemon: &Daemon, says: bool) -> JoinHandle<Client> {
    let mut server = daemon.attach("server");
    server.serve("greeter");
    server.reads = false;
    std::thread::spawn(move || {
        let (mut streams, text) = (Vec::new(), "x".repeat(TEXT_BYTES));
        loop {
            match server.heard() {
                Heard::Request(call, None) => streams.push(call),
                Heard::Request(call, Some(name)) => {
                    server.respond(call, &name);
                    if name == LAST {
                        // It is to be there until the answer is.
                        return server;
                    }
                }
                Heard::Cancel(call) => {
                    streams.retain(|stream| *stream != call);
                    server.end(call, Code::Cancelled as u8);
                }
                _ => {}
            }
            for call in streams.iter().filter(|_| says) {
                while server.may_say(*call) {
                    server.say_text(*call, &text);
                }
            }
        }
    })
}

/// Calls, while streams may end. Gives those that have.
fn greet(client: &mut Client, target: u32, name: &str) -> Vec<(CallNumber, u8)> {
    let call = client.begin(target, name);
    let (mut ends, clock) = (Vec::new(), SystemClock::default());
    let deadline = clock.now() + PATIENCE;
    loop {
        ends.extend(client.ends());
        if let Some(at) = ends.iter().position(|(ended, _)| *ended == call) {
            assert_eq!(ends.remove(at).1, 0);
            return ends;
        }
        assert!(clock.now() < deadline, "the call waits for the streams");
        std::thread::yield_now();
    }
}

/// How often a daemon has slept.
fn sleeps(daemon: &Daemon) -> u64 {
    let status = daemon.status();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Bytes of a daemon's memory that it does not share.
fn own_bytes(daemon: &Daemon) -> u64 {
    let status = daemon.status();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Says as much as some streams take, and calls beside. None of them ends.
fn fill_and_call(client: &mut Client, target: u32, streams: &[CallNumber]) {
    let text = "x".repeat(TEXT_BYTES);
    let mut calls_since = 0;
    // Until nothing is granted while so many other calls end.
    while calls_since < 300 {
        for call in streams {
            while client.may_say(*call) {
                client.say_text(*call, &text);
                calls_since = 0;
            }
        }
        assert_eq!(greet(client, target, "other"), []);
        calls_since += 1;
    }
}

#[test]
fn d8_streams_to_another_host_that_are_not_read_hold_up_no_other_call() {
    let (here, there) = pair("unread-out");
    let server = serve_unread(&there, false);
    let mut client = here.attach("client");
    let target = client.target("greeter");
    let streams: Vec<_> = (0..8).map(|_| client.begin_chat(target)).collect();
    fill_and_call(&mut client, target, &streams);
    // Both services sleep meanwhile: nobody looks whether the streams may go on.
    let before = [&here, &there].map(sleeps);
    std::thread::sleep(Duration::from_millis(500));
    let slept = [&here, &there].map(sleeps);
    for (before, slept) in before.into_iter().zip(slept) {
        assert!(slept - before < 250, "{} times in half a second", slept - before);
    }
    assert_eq!(greet(&mut client, target, LAST), []);
    server.join().unwrap();
}

#[test]
fn d8_answers_that_another_host_does_not_read_hold_up_no_other_call() {
    let (here, there) = pair("unread-in");
    let server = serve_unread(&there, true);
    let mut client = here.attach("client");
    client.reads = false;
    let target = client.target("greeter");
    for _ in 0..8 {
        client.begin_chat(target);
    }
    for _ in 0..300 {
        assert_eq!(greet(&mut client, target, "other"), []);
    }
    assert_eq!(greet(&mut client, target, LAST), []);
    server.join().unwrap();
}

#[test]
fn d8_more_unread_streams_to_another_host_than_a_quota_has_room_for_end_and_no_others() {
    let (here, there) = pair("unread-many");
    let server = serve_unread(&there, false);
    let mut client = here.attach("client");
    let target = client.target("greeter");
    let text = "x".repeat(TEXT_BYTES);
    let (mut streams, mut ended): (Vec<_>, Vec<_>) = Default::default();
    let mut calls_since = 0;
    // A mebibyte of each waits here, behind what lies on the way and there.
    while ended.len() < 20 && calls_since < 300 {
        if streams.len() < 100 {
            streams.push(client.begin_chat(target));
        }
        for call in &streams {
            while client.may_say(*call) {
                client.say_text(*call, &text);
                calls_since = 0;
            }
        }
        for (call, status) in greet(&mut client, target, "other") {
            assert_eq!(status, Code::ResourceExhausted as u8);
            streams.retain(|stream| *stream != call);
            ended.push(call);
        }
        calls_since += 1;
    }
    assert!(ended.len() >= 20, "{} have ended", ended.len());
    // 32 MiB wait there at most, and as much may be in the allocator's hands.
    let bytes = own_bytes(&here);
    assert!(bytes < 120 << 20, "{bytes} bytes");
    greet(&mut client, target, LAST);
    server.join().unwrap();
}
