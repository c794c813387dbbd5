//! Calls from every kind of thread, to a server on threads of its own.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::greeter::generated::GreeterClient;
use crate::greeter::*;
use crate::servers::*;
use petasos::{Channel, Code, Loop, LoopConfig, Request, block_on};

async fn greet(client: &GreeterClient, whom: &str) -> String {
    let greeting = client.greet(name(whom)).await.expect("the handler answers");
    greeting.text().to_owned()
}

#[test]
fn threads_without_a_runtime_share_a_channel() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = client.clone();
            scope.spawn(move || {
                for call in 0..100 {
                    let whom = format!("{thread} {call}");
                    assert_eq!(block_on(greet(&client, &whom)), format!("hello, {whom}"));
                }
            });
        }
    });
    let begun = service.seen().begun;
    assert!(begun == 400 || MAY_RUN_AGAIN && begun > 400, "{begun}");
}

#[test]
fn tasks_of_a_runtime_with_threads_share_a_channel() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let service = Service::default();
        let server = start(&service);
        let channel = Channel::connect(&target(&server)).await.expect("the server is up");
        let client = GreeterClient::new(channel);
        let tasks = (0..200).map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let whom = number.to_string();
                assert_eq!(greet(&client, &whom).await, format!("hello, {whom}"));
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no task panics");
        }
    });
}

#[test]
fn a_runtime_of_one_thread_calls_without_a_loop() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let service = Service::default();
    let server = start(&service);
    runtime.expect("a runtime starts").block_on(async {
        let channel = Channel::connect(&target(&server)).await.expect("the server is up");
        let client = GreeterClient::new(channel);
        let both = tokio::join!(greet(&client, "a"), greet(&client, "b"));
        assert_eq!(both, ("hello, a".to_owned(), "hello, b".to_owned()));
    });
}

#[test]
fn a_loop_calls_over_its_own_channels_and_over_others() {
    let service = Service::default();
    let server = start(&service);
    let address = server.local_address().expect("it listens");
    let foreign = client(&server);
    let event_loop = Loop::new(LoopConfig::default()).expect("this thread has no other loop");
    let own = GreeterClient::new(event_loop.channel(address));
    event_loop.block_on(async {
        // In the loop's thread, a channel belongs to the loop.
        let built = Channel::connect(&target(&server)).await.expect("the server is up");
        let built = GreeterClient::new(built);
        for client in [&own, &foreign, &built] {
            assert_eq!(greet(client, "x").await, "hello, x");
        }
    });
}

#[test]
fn a_call_that_moves_to_another_thread_is_not_lost() {
    let service = Service::default();
    let server = start(&service);
    let event_loop = Loop::new(LoopConfig::default()).expect("this thread has no other loop");
    let address = server.local_address().expect("it listens");
    let client = GreeterClient::new(event_loop.channel(address));
    let mut moved: Vec<_> = (0..3).map(|_| Box::pin(client.greet(name("moved")))).collect();
    // The second one was polled in the loop before, and the third is over when it moves.
    let mut context = Context::from_waker(Waker::noop());
    assert!(moved[1].as_mut().poll(&mut context).is_pending());
    let mut last = moved.pop().expect("there are three");
    let polled = event_loop.block_on(async {
        client.greet(name("later")).await.expect("the handler answers");
        std::future::poll_fn(|cx| std::task::Poll::Ready(pin!(client.greet(name("y"))).poll(cx)))
            .await
    });
    assert!(polled.is_pending());
    let first = moved.remove(0);
    let elsewhere = std::thread::spawn(move || {
        let texts = [block_on(last.as_mut()), block_on(first), block_on(moved.remove(0))];
        texts.map(|text| text.expect("the handler answers").text().to_owned())
    });
    event_loop.block_on(async {
        while !elsewhere.is_finished() {
            client.greet(name("turn")).await.expect("the handler answers");
        }
    });
    let texts = elsewhere.join().expect("it does not panic");
    assert_eq!(texts, ["hello, moved"; 3].map(str::to_owned));
}

#[test]
fn more_calls_than_slots_block_none() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    let held: Vec<_> = (0..300).map(|_| client.greet(name("hold"))).collect();
    // The first session has 32 slots: sessions are opened until all calls have one.
    until(|| service.seen().begun >= 300);
    assert_eq!(block_on(greet(&client, "quick")), "hello, quick");
    release(&service);
    for call in held {
        assert_eq!(block_on(call).expect("the handler answers").text(), "hello, held");
    }
}

#[test]
fn r11_calls_are_cancelled_from_everywhere() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    let mut held = Box::pin(client.greet(name("hold")));
    assert!(held.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let unpolled = client.greet(name("hold"));
    until(|| service.seen().begun >= 2);
    drop(held);
    std::thread::spawn(move || drop(unpolled)).join().expect("it does not panic");
    until(|| service.seen().dropped >= 2);
    assert_eq!(block_on(greet(&client, "after")), "hello, after");
}

#[test]
fn r10_calls_from_elsewhere_keep_their_deadlines() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    let request = Request::new(name("hold")).with_timeout(Duration::from_millis(20));
    let late = block_on(client.greet(request)).expect_err("it is held");
    assert_eq!(late.code(), Code::DeadlineExceeded);
    until(|| service.seen().dropped == 1);
    let channel = Channel::builder(&target(&server)).timeout(Duration::from_millis(20));
    let channel = block_on(channel.metadata("from", "all").connect()).expect("the server is up");
    let client = GreeterClient::new(channel);
    let late = block_on(client.greet(name("hold"))).expect_err("it is held");
    assert_eq!(late.code(), Code::DeadlineExceeded);
    assert_eq!(service.seen().metadata.as_deref(), Some("all"));
}

#[test]
fn calls_fail_when_their_loop_has_ended() {
    let service = Service::default();
    let server = start(&service);
    let event_loop = Loop::new(LoopConfig::default()).expect("this thread has no other loop");
    let address = server.local_address().expect("it listens");
    let client = GreeterClient::new(event_loop.channel(address));
    let begun = client.greet(name("hold"));
    let elsewhere = std::thread::spawn(move || block_on(begun));
    event_loop.block_on(async {
        client.greet(name("turn")).await.expect("the handler answers");
    });
    drop(event_loop);
    let outcome = elsewhere.join().expect("it does not panic");
    assert_eq!(outcome.expect_err("its loop is gone").code(), Code::Unavailable);
    let late = block_on(client.greet(name("late"))).expect_err("its loop is gone");
    assert_eq!(late.code(), Code::Unavailable);
}
