//! Clients of tonic call applications behind the service.

use std::future::Future;
use std::time::Duration;

use petasos::block_on;
use petasos_health::{HealthCheckRequest, HealthClient, ServingStatus};
use petasos_reflection::client::Conversation;
use tokio::sync::mpsc;
use tonic::codec::CompressionEncoding;
use tonic::codegen::tokio_stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Streaming};

use crate::facade::Daemon;
use crate::support::{Application, NO_EVE, PATIENCE};
use crate::tonic_work::generated::work_client::WorkClient;
use crate::tonic_work::{Item, Told, item};

/// A service that gRPC clients reach, and where.
fn reached(name: &str, policies: Option<&str>) -> (Daemon, String) {
    let arguments = ["--listen-grpc", "127.0.0.1:0"];
    Daemon::start_saying(name, policies, &arguments, "gRPC clients at grpc://")
}

/// Runs what a program with tonic does.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.unwrap() })
}

/// Waits until something is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A stream in both directions, after one message each. tonic waits for the answer to begin, and
/// the application begins it with the first message.
async fn chat(client: &mut WorkClient<Channel>) -> (mpsc::Sender<Item>, Streaming<Item>) {
    let (out, items) = mpsc::channel(1);
    out.send(item("first", 7)).await.unwrap();
    let items = tokio_stream::wrappers::ReceiverStream::new(items);
    let mut back = client.chat(items).await.unwrap().into_inner();
    assert_eq!(back.message().await.unwrap().unwrap().number, 7);
    (out, back)
}

async fn connect(address: &str) -> WorkClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    WorkClient::new(endpoint.connect().await.unwrap())
}

#[test]
fn calls_of_all_kinds_come_in() {
    let (daemon, address) = reached("grpc-kinds", None);
    let _application = Application::start(&daemon);
    run(async {
        let mut client = connect(&address).await;
        let failed = client.fail(item("not today", 9)).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::FailedPrecondition, "not today"));
        assert_eq!(failed.metadata().get("why").unwrap(), "asked");

        let mut counted = client.count(item("n", 300)).await.unwrap();
        assert_eq!(counted.metadata().get("counts").unwrap(), "on");
        for number in 0..300 {
            assert_eq!(counted.get_mut().message().await.unwrap().unwrap().number, number);
        }
        assert!(counted.get_mut().message().await.unwrap().is_none());
        let trailers = counted.get_mut().trailers().await.unwrap().unwrap();
        assert_eq!(trailers.get("after").unwrap(), "all");

        let items = tokio_stream::iter((0..300).map(|number| item("n", number)));
        assert_eq!(client.sum(items).await.unwrap().into_inner().number, 299 * 300 / 2);

        let (out, mut back) = chat(&mut client).await;
        for number in 0..100 {
            out.send(item("ping", number)).await.unwrap();
            assert_eq!(back.message().await.unwrap().unwrap().number, number);
        }
        drop(out);
        assert!(back.message().await.unwrap().is_none());
    });
}

#[test]
fn metadata_and_compression_go_along() {
    let (daemon, address) = reached("grpc-metadata", None);
    let _application = Application::start(&daemon);
    run(async {
        let gzip = CompressionEncoding::Gzip;
        let plain = connect(&address).await;
        let packed = plain.clone().send_compressed(gzip).accept_compressed(gzip);
        for mut client in [plain, packed] {
            let mut request = Request::new(Item { blob: vec![7; 1 << 20], ..item("x", 1) });
            request.metadata_mut().insert("asked", "politely".parse().unwrap());
            let raw = tonic::metadata::MetadataValue::from_bytes(&[0, 255, 1]);
            request.metadata_mut().insert_bin("raw-bin", raw);
            let echoed = client.echo(request).await.unwrap();
            assert_eq!(echoed.metadata().get("seen").unwrap(), "politely");
            let raw = echoed.metadata().get_bin("seen-bin").unwrap().to_bytes().unwrap();
            assert_eq!(raw, &[0, 255, 1][..]);
            assert_eq!(echoed.metadata().get("after").unwrap(), "all");
            assert_eq!(echoed.into_inner().blob, vec![7; 1 << 20]);
        }
    });
}

#[test]
fn policies_of_the_application_see_the_calls() {
    let (daemon, address) = reached("grpc-policies", Some(NO_EVE));
    let application = Application::start(&daemon);
    run(async {
        let mut client = connect(&address).await;
        assert_eq!(client.echo(item("ann", 1)).await.unwrap().into_inner().text, "ann");
        let refused = client.echo(item("eve", 2)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert_eq!(client.echo(item("bob", 3)).await.unwrap().into_inner().text, "bob");
    });
    let echoed = ["ann", "bob"].map(|name| Told::Echoed(name.to_owned()));
    assert_eq!([application.next(), application.next()], echoed);
}

#[test]
fn deadlines_and_cancels_reach_the_application() {
    let (daemon, address) = reached("grpc-deadline", None);
    let application = Application::start(&daemon);
    run(async {
        let mut client = connect(&address).await;
        let mut late = Request::new(item("late", 1));
        late.metadata_mut().insert("grpc-timeout", "200m".parse().unwrap());
        let late = client.hold(late).await.unwrap_err();
        // tonic's own timer calls it cancelled.
        let is_late = matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled);
        assert!(is_late, "{late}");
        assert_eq!([application.next(), application.next()], [Told::Holds(true), Told::Left]);

        let mut holding = client.clone();
        let held = tokio::spawn(async move { holding.hold(item("held", 1)).await });
        until(|| application.told.try_recv() == Ok(Told::Holds(false))).await;
        held.abort();
        until(|| application.told.try_recv() == Ok(Told::Left)).await;

        // A stream that is given up.
        let ends = chat(&mut client).await;
        drop((ends, client));
        until(|| application.told.try_recv() == Ok(Told::Left)).await;
    });
}

/// The code with which a call ends.
async fn code_of_echo(client: &mut WorkClient<Channel>) -> Code {
    client.echo(item("x", 1)).await.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[test]
fn who_serves_nothing_is_told_from_who_has_gone() {
    let (daemon, address) = reached("grpc-absent", None);
    run(async {
        let mut client = connect(&address).await;
        assert_eq!(code_of_echo(&mut client).await, Code::Unimplemented, "nobody ever served it");
        for _ in 0..2 {
            let application = Application::start(&daemon);
            while code_of_echo(&mut client).await != Code::Ok {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            drop(application);
            while code_of_echo(&mut client).await == Code::Ok {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(code_of_echo(&mut client).await, Code::Unavailable, "it has gone");
        }
        for path in ["/managed.Work/Nothing", "/managed.Nobody/Echo", "/managed.Work", "/"] {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
            let mut grpc = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
            grpc.ready().await.unwrap();
            let codec = tonic_prost::ProstCodec::<Item, Item>::default();
            let status = grpc.unary(Request::new(item("x", 1)), path.parse().unwrap(), codec);
            let status = status.await.unwrap_err();
            assert_eq!(status.code(), Code::Unimplemented, "{path}: {status}");
        }
    });
}

#[test]
fn who_ends_in_the_middle_of_a_stream_ends_it() {
    let (mut daemon, address) = reached("grpc-killed", None);
    for ends_service in [false, true] {
        let application = Application::start(&daemon);
        run(async {
            let mut client = connect(&address).await;
            while code_of_echo(&mut client).await != Code::Ok {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let (_out, mut back) = chat(&mut client).await;
            match ends_service {
                false => drop(application),
                true => daemon.kill(),
            }
            let ended = back.message().await.unwrap_err();
            // How tonic calls a connection that has ended is its own decision.
            assert!(ends_service || ended.code() == Code::Unavailable, "{ended}");
        });
    }
}

#[test]
fn messages_that_are_too_long_and_clients_that_read_nothing_harm_no_others() {
    let (daemon, address) = reached("grpc-hostile", None);
    let _application = Application::start(&daemon);
    run(async {
        let mut client = connect(&address).await;
        let long = Item { blob: vec![0; 5 << 20], ..item("long", 1) };
        let status = client.echo(long).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        // Many messages that this client never reads: it holds the application up until the
        // service ends its calls.
        let lazy = connect(&address).await;
        let (tell, mut unread) = mpsc::channel(8);
        for _ in 0..8 {
            let endless = Item { blob: vec![0; 64 << 10], ..item("endless", i64::MAX) };
            let (mut lazy, tell) = (lazy.clone(), tell.clone());
            tokio::spawn(async move { tell.send(lazy.count(endless).await).await });
        }
        let first = unread.recv().await.unwrap().unwrap();
        for number in 0..50 {
            let echoed = client.echo(item("others", number)).await.unwrap();
            assert_eq!(echoed.into_inner().number, number);
        }
        drop(first);
    });
}

#[test]
fn the_longest_message_is_what_the_operator_says() {
    let arguments = ["--listen-grpc", "127.0.0.1:0", "--grpc-message-bytes", "6000000"];
    let (daemon, address) =
        Daemon::start_saying("grpc-long", None, &arguments, "gRPC clients at grpc://");
    let _application = Application::start(&daemon);
    run(async {
        let mut client = connect(&address).await.max_decoding_message_size(8 << 20);
        let long = |bytes| Item { blob: vec![7; bytes], ..item("long", 1) };
        let echoed = client.echo(long(5 << 20)).await.unwrap();
        assert_eq!(echoed.into_inner().blob.len(), 5 << 20);
        let status = client.echo(long(6 << 20)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    });
}

#[test]
fn calls_of_one_peer_are_bounded() {
    let (daemon, address) = reached("grpc-bounded", None);
    let application = Application::start(&daemon);
    run(async {
        // 128 calls on each connection, and 1024 in all.
        let (tell, mut told) = mpsc::channel(8);
        for _ in 0..9 {
            let client = connect(&address).await;
            for _ in 0..128 {
                let (mut client, tell) = (client.clone(), tell.clone());
                tokio::spawn(async move {
                    let ended = client.hold(item("held", 1)).await.unwrap_err();
                    let _ = tell.send(ended.code()).await;
                });
            }
        }
        for _ in 0..128 {
            assert_eq!(told.recv().await, Some(Code::ResourceExhausted));
        }
        let mut held = 0;
        until(|| {
            held += application.told.try_iter().filter(|told| *told == Told::Holds(false)).count();
            held == 1024
        })
        .await;
        assert!(told.try_recv().is_err());
    });
    // Those were cancelled when their client ended.
    (0..1024).for_each(|_| assert_eq!(application.next(), Told::Left));
}

#[test]
fn health_and_reflection_know_the_services_of_applications() {
    let (daemon, address) = reached("grpc-about", None);
    let application = Application::start(&daemon);
    let target = format!("grpc://{address}");
    block_on(async {
        let builder = petasos::Channel::builder(&target);
        let channel = builder.service(petasos::ServiceChoice::Direct).connect().await.unwrap();
        let health = HealthClient::new(channel.clone());
        let status = async |service: &str| {
            let mut request = HealthCheckRequest::new();
            request.set_service(service);
            health.check(request).await.map(|response| response.status())
        };
        assert_eq!(status("").await.unwrap(), ServingStatus::SERVING);
        assert_eq!(status("managed.Work").await.unwrap(), ServingStatus::SERVING);
        let unknown = status("managed.Nobody").await.unwrap_err();
        assert_eq!(unknown.code(), petasos::Code::NotFound);
        let (mut conversation, services) = Conversation::begin(&channel).await.unwrap();
        assert_eq!(
            services,
            [
                "grpc.health.v1.Health",
                "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection",
                "managed.Work"
            ]
        );
        let mut files = petasos_schema::Files::default();
        conversation.collect("managed.Work", &mut files).await.unwrap();
        assert!(files.file_of_symbol("managed.Item").is_some());
        drop(application);
        while status("managed.Work").await.unwrap() != ServingStatus::NOT_SERVING {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}
