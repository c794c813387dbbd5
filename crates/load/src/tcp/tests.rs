//! Targets against servers on loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;

use petasos_base::Clock;
use petasos_base::sync::{AtomicU64, Ordering};

use super::*;
use crate::generator::{Limits, RunError, probe};
use crate::http::Http;
use crate::resp::Resp;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A server that serves so many connections, one after another, and ends.
fn server(
    connections: usize,
    serve: impl Fn(usize, TcpStream) + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let thread = std::thread::spawn(move || {
        for number in 0..connections {
            let (stream, _) = listener.accept().expect("a client comes");
            stream.set_read_timeout(Some(TIMEOUT)).expect("it is no zero");
            serve(number, stream);
        }
    });
    (address, thread)
}

fn http(address: SocketAddr, connections: usize) -> TcpTarget<Http> {
    let protocol = Http::get("localhost", "/", &[]).expect("it is fine");
    TcpTarget::connect(protocol, &[address], connections, TIMEOUT).expect("the server listens")
}

fn redis(address: SocketAddr) -> TcpTarget<Resp> {
    let protocol = Resp::command(&["PING".to_owned()]).expect("it is fine");
    TcpTarget::connect(protocol, &[address], 1, TIMEOUT).expect("the server listens")
}

/// Polls until so many answers are there.
fn answers(target: &mut impl Target, count: usize) -> Vec<(u32, Result<(), String>)> {
    let clock = Clock::system();
    let mut answers = Answers::new(&clock);
    let mut all = Vec::new();
    let deadline = clock.now() + TIMEOUT;
    while all.len() < count {
        assert!(clock.now() < deadline, "only {all:?}");
        target.wait(Duration::from_millis(50));
        target.poll(&mut answers).expect("it is not lost");
        all.extend(answers.drain().map(|answer| (answer.slot, answer.result)));
    }
    all
}

/// Reads one request.
fn request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("it comes") == 1 {
        request.push(byte[0]);
    }
    String::from_utf8_lossy(&request).into_owned()
}

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[test]
fn a_connection_is_kept_for_the_next_request() {
    let (address, thread) = server(1, |_, mut stream| {
        for _ in 0..3 {
            assert!(request(&mut stream).starts_with("GET / HTTP/1.1\r\n"));
            stream.write_all(EMPTY).expect("the client reads");
        }
    });
    let mut target = http(address, 1);
    assert_eq!((target.outstanding_max(), target.address()), (1, address));
    for slot in [0, 5, 0] {
        target.send(slot).expect("it is not lost");
        assert_eq!(answers(&mut target, 1), [(slot, Ok(()))]);
    }
    thread.join().expect("it got what it should");
}

#[test]
fn a_connection_that_the_server_ends_is_replaced_by_the_next_request() {
    let (address, thread) = server(3, |_, mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end").expect("the client reads");
    });
    let mut target = http(address, 1);
    for _ in 0..3 {
        target.send(0).expect("it is not lost");
        assert_eq!(answers(&mut target, 1), [(0, Ok(()))]);
    }
    thread.join().expect("it got what it should");
}

#[test]
fn a_request_whose_connection_ends_has_failed() {
    let (address, thread) = server(2, |number, mut stream| {
        request(&mut stream);
        let answer = if number == 0 { &EMPTY[..20] } else { EMPTY };
        stream.write_all(answer).expect("the client reads");
    });
    let mut target = http(address, 1);
    target.send(0).expect("it is not lost");
    let closed = Err("the server closed the connection".to_owned());
    assert_eq!(answers(&mut target, 1), [(0, closed)]);
    target.send(0).expect("it is not lost");
    assert_eq!(answers(&mut target, 1), [(0, Ok(()))]);
    thread.join().expect("it got what it should");
}

#[test]
fn a_server_that_is_gone_is_a_failure_of_each_request() {
    let (address, thread) = server(1, |_, _| ());
    let mut target = http(address, 1);
    thread.join().expect("it ends");
    for _ in 0..2 {
        target.send(0).expect("it is not lost");
        let failed = answers(&mut target, 1);
        let reason = failed[0].1.as_ref().expect_err("nobody answers");
        let is_gone =
            ["refused", "closed", "reset", "pipe"].iter().any(|word| reason.contains(word));
        assert!(is_gone, "{reason}");
    }
}

#[test]
fn what_is_no_answer_is_said() {
    let (address, thread) = server(1, |_, mut stream| {
        request(&mut stream);
        stream.write_all(b"SSH-2.0-x\r\n\r\n").expect("the client reads");
    });
    let mut target = http(address, 1);
    let error = probe(&mut target, &Clock::system(), &Limits::default()).expect_err("it is wrong");
    assert!(matches!(error, RunError::Target(_)), "{error}");
    assert!(error.to_string().contains("the response is no HTTP/1.1"), "{error}");
    thread.join().expect("it got what it should");
}

#[test]
fn commands_are_answered_in_order_and_errors_are_failures() {
    let (address, thread) = server(1, |_, mut stream| {
        let mut commands = vec![0; b"*1\r\n$4\r\nPING\r\n".len() * 3];
        stream.read_exact(&mut commands).expect("three commands come at once");
        stream.write_all(b"+PONG\r\n-ERR no\r\n$2\r\n").expect("the client reads");
        stream.write_all(b"\r\n\r\n+TOO MUCH\r\n").expect("the client reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        // Until the client, which was sent too much, closes it.
        let _ = stream.read(&mut [0]);
    });
    let mut target = redis(address);
    [7, 8, 9].iter().for_each(|slot| target.send(*slot).expect("it is not lost"));
    let all = answers(&mut target, 3);
    assert_eq!(all, [(7, Ok(())), (8, Err("ERR no".to_owned())), (9, Ok(()))]);
    target.poll(&mut Answers::new(&Clock::system())).expect("it is not lost");
    thread.join().expect("it got what it should");
}

#[test]
fn a_server_that_reads_nothing_holds_nobody_up() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (address, thread) = server(1, move |_, mut stream| {
        wait.recv().expect("the test says when");
        let mut total = 0;
        let mut room = vec![0; 1 << 20];
        let one = LONG.len() + b"*1\r\n$200000\r\n\r\n".len();
        while total < one * COUNT as usize {
            total += stream.read(&mut room).expect("it comes");
        }
        let pongs = "+PONG\r\n".repeat(COUNT as usize);
        stream.write_all(pongs.as_bytes()).expect("the client reads");
    });
    const COUNT: u32 = 100;
    static LONG: &str = match core::str::from_utf8(&[b'x'; 200_000]) {
        Ok(text) => text,
        Err(_) => panic!("it is ASCII"),
    };
    let protocol = Resp::command(&[LONG.to_owned()]).expect("it is fine");
    let mut target = TcpTarget::connect(protocol, &[address], 1, TIMEOUT).expect("it listens");
    // 20 MB: more than sockets hold.
    (0..COUNT).for_each(|slot| target.send(slot).expect("it is not lost"));
    go.send(()).expect("the server waits");
    let all = answers(&mut target, COUNT as usize);
    assert!((0..COUNT).zip(&all).all(|(slot, answer)| *answer == (slot, Ok(()))));
    thread.join().expect("it got what it should");
}

#[test]
fn nobody_there_is_said_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let protocol = Http::get("localhost", "/", &[]).expect("it is fine");
    let error = TcpTarget::connect(protocol.clone(), &[address], 1, TIMEOUT).err();
    assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::ConnectionRefused));
    assert!(TcpTarget::connect(protocol, &[], 1, TIMEOUT).is_err());
}

#[test]
fn each_request_goes_to_a_server_at_random() {
    // Each accepts a second connection while the first waits, and counts its requests.
    let start = || {
        let (opened, both) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU64::new(0)));
        let (listener, count) = (TcpListener::bind("127.0.0.1:0"), both.clone());
        let listener = listener.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, opened) = (stream.expect("a client comes"), opened.clone());
                let count = count.clone();
                std::thread::spawn(move || {
                    while !request(&mut stream).is_empty() {
                        // The first two are answered together.
                        if count.fetch_add(1, Ordering::Relaxed) < 2 {
                            opened.wait();
                        }
                        stream.write_all(EMPTY).expect("the client reads");
                    }
                });
            }
        });
        (address, both)
    };
    let servers = [start(), start()];
    let addresses = servers.each_ref().map(|(address, _)| *address);
    let http = Http::get("localhost", "/", &[]).expect("it is fine");
    let mut target =
        TcpTarget::connect_at_random(http, &addresses, 64, TIMEOUT).expect("they listen");
    assert_eq!((target.outstanding_max(), target.address()), (64, addresses[0]));
    for slot in 0..64 {
        target.send(slot).expect("it is not lost");
    }
    assert!(answers(&mut target, 64).iter().all(|(_, result)| result.is_ok()));
    let counts = servers.each_ref().map(|(_, count)| count.load(Ordering::Relaxed));
    assert!(
        counts.iter().sum::<u64>() == 64 && counts.iter().all(|count| *count > 1),
        "{counts:?}"
    );
    assert!(TcpTarget::connect_at_random(target.protocol, &[], 1, TIMEOUT).is_err());
}
