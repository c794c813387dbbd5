//! Streams that nobody reads (D8).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use petasos::{Code, Request, Status, Streaming};
use rustix::process::Signal;

use crate::support::managed::{Item, WorkClient};
use crate::support::*;

/// So long are messages.
const BYTES: usize = 64 << 10;
/// So many of them may be under way: far more than what is granted at all places, and far less than
/// what the heaps take.
const MESSAGES_MAX: i64 = 256;
/// The same, of messages without anything: they count 1024 bytes each, but within a process less.
const SHORT_MESSAGES_MAX: i64 = 60_000;

async fn is_ready<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

enum Event {
    Taken,
    Read(i64),
}

/// What comes first: that `send` is taken, or the next answer.
fn taken_or_read(
    cx: &mut Context<'_>,
    send: Pin<&mut impl Future<Output = Result<(), Status>>>,
    back: &mut Streaming<Item>,
) -> Poll<Event> {
    if let Poll::Ready(taken) = send.poll(cx) {
        taken.unwrap();
        return Poll::Ready(Event::Taken);
    }
    back.poll_message(cx).map(|message| Event::Read(message.unwrap().unwrap().number()))
}

/// Says more and more in a stream whose answers are not read, until it is held up for as long as
/// 200 other calls take. Then reads all.
async fn say_and_do_not_read(client: &WorkClient, bytes: usize, messages_max: i64) {
    let (mut out, mut back) = client.chat().await.unwrap();
    let blob = vec![7; bytes];
    let mut sent = 0;
    let numbered = |number| {
        let mut message = item("unread", number);
        message.set_blob(&blob);
        message
    };
    'saying: loop {
        let mut send = pin!(out.send(numbered(sent)));
        for number in 0..200 {
            if let Some(taken) = is_ready(send.as_mut()).await {
                taken.unwrap();
                sent += 1;
                assert!(sent < messages_max, "nothing holds the stream up");
                continue 'saying;
            }
            assert_eq!(client.echo(item("other", number)).await.unwrap().number(), number);
        }
        let mut read = 0;
        loop {
            // It is taken once the answers are read. That can be when all of them were read: then
            // no other comes before it is taken.
            match poll_fn(|cx| taken_or_read(cx, send.as_mut(), &mut back)).await {
                Event::Taken => break,
                Event::Read(number) => assert_eq!(number, read),
            }
            read += 1;
        }
        sent += 1;
        for number in read..sent {
            assert_eq!(back.message().await.unwrap().unwrap().number(), number);
        }
        break;
    }
    out.close();
    assert!(back.message().await.unwrap().is_none());
}

#[test]
fn d8_a_stream_that_is_not_read_is_held_up_and_nothing_else() {
    let daemon = Daemon::start("unread", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        say_and_do_not_read(&client, BYTES, MESSAGES_MAX).await;
        say_and_do_not_read(&client, 0, SHORT_MESSAGES_MAX).await;
    });
}

#[test]
fn d8_a_stream_to_another_host_that_is_not_read_is_held_up_and_nothing_else() {
    let (here, _) = Daemon::start_reached("unread-here", "127.0.0.1:0");
    let (there, address) = Daemon::start_reached("unread-there", "127.0.0.2:0");
    let _server = there.server("server");
    let event_loop = here.event_loop("client");
    event_loop.block_on(async {
        let client = WorkClient::new(event_loop.channel(address));
        say_and_do_not_read(&client, BYTES, MESSAGES_MAX).await;
        say_and_do_not_read(&client, 0, SHORT_MESSAGES_MAX).await;
    });
}

/// How often this thread has slept.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Lets the loop turn for a while.
async fn wait(client: &WorkClient, time: Duration) {
    let held = client.hold(Request::new(item("wait", 0)).with_timeout(time)).await;
    assert_eq!(held.unwrap_err().code(), Code::DeadlineExceeded);
}

#[test]
fn a_program_sleeps_while_the_service_does_not_read_its_ring() {
    let daemon = Daemon::start("full-ring", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        let mut chats = Vec::new();
        for _ in 0..4 {
            chats.push(client.chat().await.unwrap());
        }
        daemon.signal(Signal::STOP);
        // Each has credit for about as many messages as the ring has places.
        let chats = chats.into_iter().map(|(mut out, back)| {
            event_loop.spawn(async move {
                for number in 0..1000 {
                    out.send(item("full", number)).await.unwrap();
                }
                (out, back)
            })
        });
        let chats: Vec<_> = chats.collect();
        wait(&client, Duration::from_millis(200)).await;
        let (before, mut rounds) = (sleeps(), 0);
        while sleeps() - before < 50 {
            wait(&client, Duration::from_millis(50)).await;
            rounds += 1;
            assert!(rounds < 100, "it slept {} times in {rounds} rounds", sleeps() - before);
        }
        daemon.signal(Signal::CONT);
        for chat in chats {
            let (out, mut back) = chat.await.unwrap();
            out.close();
            for number in 0..1000 {
                assert_eq!(back.message().await.unwrap().unwrap().number(), number);
            }
            assert!(back.message().await.unwrap().is_none());
        }
    });
}
