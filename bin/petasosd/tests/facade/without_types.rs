//! Callers and servers whose messages are bytes in protobuf's encoding.

use petasos::untyped::Payload;
use petasos::{Code, Request};

use crate::support::{Daemon, client, item};
use crate::untyped::{self, described, item_of, named, payload};

#[test]
fn a_caller_of_bytes_calls_a_typed_server() {
    let daemon = Daemon::start("bytes-out", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = untyped::client(&event_loop, &server, described());
    event_loop.block_on(async {
        for bytes in [0, 1, 500, 4096, 70_000, 1 << 20] {
            let mut message = item("bytes", bytes as i64);
            message.set_blob(vec![7; bytes]);
            let mut request = Request::new(payload(&message));
            request.metadata_mut().append("asked", "politely").unwrap();
            let echoed = client.unary("Echo", request).unwrap().await.unwrap();
            assert_eq!(echoed.metadata().get("seen"), Some("politely"));
            let echoed = item_of(&echoed);
            assert_eq!((echoed.text(), echoed.number()), ("bytes", bytes as i64));
            assert!(echoed.blob() == message.blob(), "{bytes} bytes");
        }
        let failed = client.unary("Fail", payload(&item("not today", 9))).unwrap();
        let failed = failed.await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::FailedPrecondition, "not today"));
    });
}

#[test]
fn a_caller_of_bytes_streams_in_all_ways() {
    let daemon = Daemon::start("bytes-streams", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = untyped::client(&event_loop, &server, described());
    event_loop.block_on(async {
        let counting = client.server_streaming("Count", payload(&item("n", 300))).unwrap();
        let mut counted = counting.await.unwrap();
        for number in 0..300 {
            let message = counted.message().await.unwrap().unwrap();
            assert_eq!(item_of(&message).number(), number);
        }
        assert!(counted.message().await.unwrap().is_none());

        let mut items = client.client_streaming("Sum").unwrap();
        for number in 0..300 {
            items.send(payload(&item("n", number))).await.unwrap();
        }
        let sum = items.finish().await.unwrap();
        assert_eq!(item_of(&sum).number(), 299 * 300 / 2);

        let (mut out, mut back) = client.bidirectional("Chat").unwrap().await.unwrap();
        for number in 0..100 {
            out.send(payload(&item("ping", number))).await.unwrap();
            let echoed = back.message().await.unwrap().unwrap();
            assert_eq!(item_of(&echoed).number(), number);
        }
        out.close();
        assert!(back.message().await.unwrap().is_none());
    });
}

#[test]
fn a_typed_caller_calls_and_streams_to_a_server_of_bytes() {
    let daemon = Daemon::start("bytes-in", None);
    let server = untyped::server(&daemon, described()).unwrap();
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        for bytes in [1, 4096, 70_000, 1 << 20] {
            let mut message = item("typed", bytes as i64);
            message.set_blob(vec![7; bytes]);
            let mut request = Request::new(message);
            request.metadata_mut().append("asked", "politely").unwrap();
            let echoed = client.echo(request).await.unwrap();
            assert_eq!(echoed.metadata().get("seen"), Some("politely"));
            assert_eq!((echoed.text(), echoed.number()), ("typed", bytes as i64));
            assert_eq!(echoed.blob().len(), bytes);
        }
        let failed = client.echo(item("", 0)).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::InvalidArgument, "nothing to echo"));

        let (mut out, mut back) = client.chat().await.unwrap();
        for number in 0..100 {
            out.send(item("ping", number)).await.unwrap();
            assert_eq!(back.message().await.unwrap().unwrap().number(), number);
        }
        out.close();
        assert!(back.message().await.unwrap().is_none());
        let mut counted = client.count(item("once", 3)).await.unwrap();
        assert_eq!(counted.message().await.unwrap().unwrap().text(), "once");
        assert!(counted.message().await.unwrap().is_none());
    });
}

#[test]
fn bytes_at_both_ends_arrive() {
    let daemon = Daemon::start("bytes-both", None);
    let server = untyped::server(&daemon, described()).unwrap();
    let event_loop = daemon.event_loop("client");
    let client = untyped::client(&event_loop, &server, described());
    event_loop.block_on(async {
        let calls: Vec<_> =
            (1..500).map(|n| client.unary("Echo", payload(&item("all", n))).unwrap()).collect();
        for (number, call) in (1..).zip(calls) {
            assert_eq!(item_of(&call.await.unwrap()).number(), number);
        }
        // Who does not know a field keeps it.
        let strange = Payload::from_bytes(b"\x0a\x01a\xa2\x06\x03new").unwrap();
        let echoed = client.unary("Echo", strange).unwrap().await.unwrap();
        assert_eq!(echoed.to_bytes().unwrap(), b"\x0a\x01a\xa2\x06\x03new");
    });
}

/// A text that is no UTF-8: a message, but not an item.
fn no_item() -> petasos::Msg<Payload> {
    Payload::from_bytes(b"\x0a\x01\xff").unwrap()
}

#[test]
fn bytes_that_are_no_such_message_end_their_call_only() {
    let daemon = Daemon::start("bytes-bad", None);
    let (typed, bytes) = (daemon.server("server"), untyped::server(&daemon, described()).unwrap());
    let event_loop = daemon.event_loop("client");
    let of_bytes = untyped::client(&event_loop, &typed, described());
    let of_items = client(&event_loop, &bytes);
    event_loop.block_on(async {
        let check = |status: petasos::Status| {
            assert_eq!(status.code(), Code::Internal, "{status:?}");
            assert!(status.message().contains("managed.Item"), "{status:?}");
        };
        let (mut out, mut back) = of_bytes.bidirectional("Chat").unwrap().await.unwrap();
        let echo = |number| of_bytes.unary("Echo", payload(&item("well", number))).unwrap();
        check(of_bytes.unary("Echo", no_item()).unwrap().await.unwrap_err());
        assert_eq!(item_of(&echo(1).await.unwrap()).number(), 1);
        out.send(no_item()).await.unwrap();
        check(back.message().await.unwrap_err());
        assert_eq!(item_of(&echo(2).await.unwrap()).number(), 2);
        // What the server of bytes answers is none.
        check(of_items.fail(item("x", 1)).await.unwrap_err());
        assert_eq!(of_items.echo(item("x", 2)).await.unwrap().number(), 2);
    });
}

#[test]
fn who_knows_names_only_is_told_to_describe_the_service() {
    let daemon = Daemon::start("bytes-named", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let of_names = untyped::client(&event_loop, &server, named());
    event_loop.block_on(async {
        let call = of_names.unary("Echo", payload(&item("x", 1))).unwrap();
        let status = call.await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains("describe the service"), "{status:?}");
        // The same service, described, can be called from the same loop.
        let described = untyped::client(&event_loop, &server, described());
        let echoed = described.unary("Echo", payload(&item("x", 2))).unwrap().await.unwrap();
        assert_eq!(item_of(&echoed).number(), 2);
    });
    let error = untyped::server(&daemon, named()).unwrap_err().to_string();
    assert!(error.contains("managed.Work") && error.contains("describe the service"), "{error}");
}
