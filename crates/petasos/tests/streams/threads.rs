//! Streams between threads and processes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::*;
use crate::flow::{PATIENCE, in_time};
use petasos::{Channel, Code, Loop, LoopConfig, Security, Server, block_on};

/// Where the client of a test finds its server.
const SERVER: &str = "PETASOS_TEST_STREAMS_CLIENT";
const IS_SERVER: &str = "PETASOS_TEST_STREAMS_SERVER";

fn serve(service: &Service) -> Server {
    let server = Server::builder().add(FlowServer::new(service.clone()));
    server.listen("127.0.0.1:0").start().expect("loopback has ports")
}

async fn client_of(address: impl std::fmt::Display) -> FlowClient {
    let channel = Channel::connect(&format!("petasos://{address}")).await;
    FlowClient::new(channel.expect("the server listens"))
}

/// Waits until handlers have seen something.
async fn until(mut seen: impl FnMut() -> bool) {
    while !seen() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn r15_streams_of_a_session_are_numbered_on_while_it_has_none() {
    in_time(|| async {
        let (one, other) = (serve(&Service::default()), serve(&Service::default()));
        let address = |server: &Server| server.local_address().expect("it listens");
        let first = client_of(address(&one)).await;
        chat(&first, 2, 10).await;
        // The loop gets another session while no stream is open in the first.
        chat(&client_of(address(&other)).await, 2, 10).await;
        chat(&first, 2, 10).await;
    });
}

#[test]
fn calls_of_every_shape_work_from_threads_without_a_loop() {
    in_time(|| async {
        let service = Service::default();
        let server = serve(&service);
        let client = client_of(server.local_address().expect("it listens")).await;
        every_shape(&client).await;
        // Several threads at once.
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let client = client.clone();
                std::thread::spawn(move || block_on(chat(&client, 30, 100)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it does not fail"));
    });
}

#[test]
fn r17_bounds_hold_across_threads() {
    in_time(|| async {
        let service = Service::default();
        let server = serve(&service);
        let client = client_of(server.local_address().expect("it listens")).await;
        let mut chunks = client.produce(plan("", 20_000, 1000)).await.expect("it begins");
        let mut last = 0;
        until(|| {
            std::thread::sleep(Duration::from_millis(100));
            let sent = service.seen().sent;
            sent > 0 && std::mem::replace(&mut last, sent) == sent
        })
        .await;
        // R17, and a mailbox.
        assert!(last < 6 * 131, "{last} chunks of 1000 bytes");
        check(&client.echo(chunk(3, 5)).await.expect("others are not harmed"), 3, 5);
        assert_eq!(drain(&mut chunks, 1000).await, Ok(20_000));
    });
}

#[test]
fn r19_what_is_dropped_on_another_thread_is_dropped_at_the_server() {
    in_time(|| async {
        let service = Service::default();
        let server = serve(&service);
        let client = client_of(server.local_address().expect("it listens")).await;
        let mut chunks = client.produce(plan("hold", 1, 1)).await.expect("it begins");
        assert!(chunks.message().await.expect("it goes on").is_some());
        assert_eq!(service.begun_and_dropped(), (1, 0));
        drop(chunks);
        until(|| service.seen().dropped == 1).await;
        let late = client.chat().with_timeout(Duration::from_millis(30));
        let (mut out, mut back) = late.await.expect("it begins");
        out.send(asking(0, "hold")).await.expect("it is taken");
        assert_eq!(back.message().await.expect_err("late").code(), Code::DeadlineExceeded);
        until(|| service.seen().dropped == 2).await;
    });
}

#[test]
fn a_stream_may_move_to_another_thread() {
    let config = LoopConfig::default();
    let event_loop = Loop::new(config).expect("loopback has ports");
    let service = Service::default();
    let server = serve(&service);
    let client = FlowClient::new(event_loop.channel(server.local_address().expect("it listens")));
    let (mut out, mut back) = event_loop.block_on(async {
        let (mut out, mut back) = client.chat().await.expect("it begins");
        out.send(chunk(0, 10)).await.expect("it is taken");
        check(&back.message().await.expect("it goes on").expect("there is one"), 0, 10);
        (out, back)
    });
    let (done, over) = mpsc::channel();
    let elsewhere = std::thread::spawn(move || {
        block_on(async {
            for number in 1..100 {
                out.send(chunk(number, 10)).await.expect("it is taken");
                let chunk = back.message().await.expect("it goes on").expect("there is one");
                check(&chunk, number, 10);
            }
            out.close();
            assert!(back.message().await.expect("it went well").is_none());
        });
        done.send(()).expect("somebody waits");
    });
    // The loop turns while the other thread is at it.
    let asking = FlowClient::new(event_loop.channel(server.local_address().expect("it listens")));
    event_loop.block_on(async {
        while matches!(over.try_recv(), Err(mpsc::TryRecvError::Empty)) {
            asking.echo(chunk(1, 1)).await.expect("it answers");
        }
    });
    elsewhere.join().expect("it does not fail");
}

#[test]
fn a_server_that_ends_ends_its_streams() {
    in_time(|| async {
        let service = Service::default();
        let server = serve(&service);
        let client = client_of(server.local_address().expect("it listens")).await;
        let mut chunks = client.produce(plan("hold", 1, 1)).await.expect("it begins");
        assert!(chunks.message().await.expect("it goes on").is_some());
        let ended = server.drain(Duration::ZERO).await;
        let status = drain(&mut chunks, 1).await.expect_err("the server is gone");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert_eq!(service.begun_and_dropped(), (1, 1));
        assert_eq!(ended.calls, 1);
    });
}

/// The server of the test below, in a process of its own.
#[test]
fn server_process() {
    if std::env::var_os(IS_SERVER).is_none() {
        return;
    }
    let server = serve(&Service::default());
    println!("\nlistens at {}", server.local_address().expect("it listens"));
    std::thread::sleep(PATIENCE);
}

#[test]
fn r20_streams_end_with_the_process_of_their_server() {
    let mut child = Command::new(std::env::current_exe().expect("this is a program"))
        .args(["--exact", "threads::server_process", "--nocapture"])
        .env(IS_SERVER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let address = lines
        .find_map(|line| line.expect("it is text").strip_prefix("listens at ").map(str::to_owned));
    let address = address.expect("the server says where it listens");
    in_time(move || async move {
        let client = client_of(address).await;
        every_shape(&client).await;
        let mut held = client.produce(plan("hold", 1, 1)).await.expect("it begins");
        assert!(held.message().await.expect("it goes on").is_some());
        let (mut out, mut back) = client.chat().await.expect("it begins");
        out.send(chunk(0, 1)).await.expect("it is taken");
        assert!(back.message().await.expect("it goes on").is_some());
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        let status = held.message().await.expect_err("the server is gone");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        let status = back.message().await.expect_err("the server is gone");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        let status = out.send(chunk(1, 1)).await.expect_err("the server is gone");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    });
}

/// The client of the test below, in a process of its own.
#[test]
fn client_process() {
    let Some(address) = std::env::var_os(SERVER) else { return };
    let address = address.into_string().expect("it is text");
    block_on(async {
        let client = client_of(address).await;
        let mut held = client.produce(plan("hold", 1, 1)).await.expect("it begins");
        assert!(held.message().await.expect("it goes on").is_some());
        // Busy with another one, so that its exchanges are anywhere when the process ends.
        loop {
            chat(&client, 1000, 100).await;
        }
    });
}

#[test]
fn r11_handlers_end_with_the_process_of_their_client() {
    let service = Service::default();
    let server = serve(&service);
    let address = server.local_address().expect("it listens").to_string();
    let mut child = Command::new(std::env::current_exe().expect("this is a program"))
        .args(["--exact", "threads::client_process", "--nocapture"])
        .env(SERVER, address)
        .stdout(Stdio::null())
        .spawn()
        .expect("this program runs");
    in_time(move || async move {
        until(|| service.seen().taken > 3000).await;
        assert_eq!(service.seen().dropped, 0);
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        until(|| service.seen().dropped == 1).await;
        until(|| service.seen().running == 0).await;
        drop(server);
    });
}

#[test]
fn calls_outlive_their_channel() {
    let service = Service::default();
    let server = serve(&service);
    let target = format!("petasos://{}", server.local_address().expect("it listens"));
    in_time(async move || {
        // Its loop has a thread of its own, which nobody else keeps.
        let client = || async {
            let channel = Channel::builder(&target).security(Security::Plaintext).connect().await;
            FlowClient::new(channel.expect("the server listens"))
        };
        let mut chunks = client().await.produce(plan("", 50, 20_000)).await.expect("it begins");
        assert_eq!(drain(&mut chunks, 20_000).await, Ok(50));
        let (mut out, mut back) = client().await.chat().await.expect("it begins");
        for number in 0..3 {
            out.send(chunk(number, 10)).await.expect("it is taken");
            check(&back.message().await.expect("it goes on").expect("there is one"), number, 10);
        }
        let call = client().await.echo(chunk(7, 5));
        check(&call.await.expect("it answers"), 7, 5);
    });
}
