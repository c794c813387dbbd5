//! Long requests are read where the service has put them, for as long as the program keeps them
//! (D9).

use std::sync::{Arc, Mutex};

use petasos::{Msg, Request, Response, Sender, Server, Status, Streaming};

use crate::support::managed::{Item, Work, WorkServer};
use crate::support::*;

/// So long are messages.
const BYTES: usize = 4 << 20;
/// So many of them are kept at a time: more than are read where they lie, and far less than the
/// heap takes.
const KEPT: i64 = 70;
/// So often, all are dropped and others come: together more than the heap takes.
const ROUNDS: i64 = 4;

/// Keeps what it is sent.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Vec<Msg<Item>>>>);

impl Work for Keeper {
    async fn echo(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let message = request.into_message();
        let response = item(message.text(), message.number());
        self.0.lock().unwrap().push(message);
        Ok(Response::new(response))
    }

    async fn fail(&self, _: Request<Item>) -> Result<Response<Item>, Status> {
        Err(Status::unimplemented("it only keeps"))
    }

    async fn hold(&self, _: Request<Item>) -> Result<Response<Item>, Status> {
        Err(Status::unimplemented("it only keeps"))
    }

    async fn count(&self, _: Request<Item>, _: Sender<Item>) -> Result<(), Status> {
        Err(Status::unimplemented("it only keeps"))
    }

    async fn sum(&self, _: Streaming<Item>) -> Result<Response<Item>, Status> {
        Err(Status::unimplemented("it only keeps"))
    }

    async fn chat(&self, _: Streaming<Item>, _: Sender<Item>) -> Result<(), Status> {
        Err(Status::unimplemented("it only keeps"))
    }
}

/// The bytes of a message with this number.
fn blob(number: i64) -> Vec<u8> {
    (0..BYTES).map(|at| (at as i64 * 7 + number) as u8).collect()
}

fn check(kept: &[Msg<Item>], round: i64) {
    assert_eq!(kept.len() as i64, KEPT);
    for (number, message) in (round * KEPT..).zip(kept) {
        assert_eq!(message.number(), number);
        assert!(message.blob() == blob(number), "message {number}");
    }
}

/// Whether these bytes lie in memory that this process shares with others.
fn is_shared(bytes: &[u8]) -> bool {
    let at = bytes.as_ptr() as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        (start..end).contains(&at).then(|| rest.as_bytes()[3] == b's')
    });
    found.expect("it is mapped")
}

#[test]
fn d9_long_requests_that_are_kept_stay_as_they_are_and_do_not_fill_the_heap() {
    let daemon = Daemon::start("kept", None);
    let keeper = Keeper::default();
    let server = Server::builder().add(WorkServer::new(keeper.clone())).listen("127.0.0.1:0");
    let server = server.service(daemon.service("keeper")).start().unwrap();
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    for round in 0..ROUNDS {
        event_loop.block_on(async {
            for number in round * KEPT..(round + 1) * KEPT {
                let mut message = item("kept", number);
                message.set_blob(blob(number));
                assert_eq!(client.echo(message).await.unwrap().number(), number);
            }
        });
        let kept = std::mem::take(&mut *keeper.0.lock().unwrap());
        check(&kept, round);
        assert!(is_shared(kept[0].blob()), "it was copied");
        assert!(!is_shared(kept[kept.len() - 1].blob()), "the heap is filled");
        // While its loop sleeps, and on another thread than it is on.
        std::thread::spawn(move || {
            check(&kept, round);
            drop(kept);
        })
        .join()
        .unwrap();
    }
    // Messages outlive the service, the attachment and the loop that they came by.
    event_loop.block_on(async {
        for number in 0..KEPT {
            let mut message = item("kept", number);
            message.set_blob(blob(number));
            client.echo(message).await.unwrap();
        }
    });
    let kept = std::mem::take(&mut *keeper.0.lock().unwrap());
    drop((client, event_loop));
    drop(daemon);
    drop(server);
    check(&kept, 0);
    assert!(is_shared(kept[0].blob()));
}

#[test]
fn d9_long_responses_are_read_where_they_lie() {
    let daemon = Daemon::start("kept-responses", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        let mut kept = Vec::new();
        for number in 0..5 {
            let mut message = item("echo", number);
            message.set_blob(blob(number));
            kept.push(client.echo(message).await.unwrap().into_message());
        }
        for (number, message) in (0..).zip(&kept) {
            assert!(message.blob() == blob(number) && is_shared(message.blob()));
        }
        // A received message is copied before it is changed.
        let mut changed = kept.remove(0);
        changed.set_number(9);
        assert_eq!((changed.number(), changed.text()), (9, "echo"));
        assert!(changed.blob() == blob(0));
        // What was received is sent on.
        assert!(client.echo(changed).await.unwrap().blob() == blob(0));
        let again = kept.remove(0);
        assert!(client.echo(again).await.unwrap().blob() == blob(1));
    });
}
