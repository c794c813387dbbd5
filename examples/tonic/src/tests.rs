//! What tonic services can rely on, tested with clients of both libraries.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use petasos::grpc::{GrpcConfig, Peer};
use petasos::rt::MethodKind;
use petasos::untyped::{Client, Payload, Service};
use petasos::{Channel, Code, Metrics, Request as NativeRequest, Server, StartError, message};
use petasos_tonic::AddTonic as _;
use tokio::time::{sleep, timeout};
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::{self, Stream, StreamExt as _};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel as TonicChannel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use crate::TonicClient;
use crate::generated::route_guide_server::{RouteGuide, RouteGuideServer};
use crate::messages::{Feature, Point, Rectangle, RouteNote, RouteSummary};
use crate::native::{self, RouteGuideClient};

const PATIENCE: Duration = Duration::from_secs(50);

/// What the service has observed.
#[derive(Default)]
struct Seen {
    dropped: Count,
    sent: Count,
}

#[derive(Default)]
struct Count(Mutex<usize>);

impl Count {
    fn add(&self) {
        *self.0.lock().unwrap() += 1;
    }

    fn get(&self) -> usize {
        *self.0.lock().unwrap()
    }
}

/// Counts handlers that end.
struct Ends(Arc<Seen>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.dropped.add();
    }
}

#[derive(Clone, Default)]
struct Guide(Arc<Seen>);

/// The request's latitude tells handlers what the test wants them to do.
const FAILS: i32 = 1;
const PANICS: i32 = 2;
const HANGS: i32 = 3;
const TELLS_THREAD: i32 = 4;

fn failure() -> Status {
    let mut status = Status::with_details(tonic::Code::NotFound, "not höre", vec![1, 2, 3].into());
    status.metadata_mut().insert("why", "empty".parse().unwrap());
    status
}

#[tonic::async_trait]
impl RouteGuide for Guide {
    async fn get_feature(&self, request: Request<Point>) -> Result<Response<Feature>, Status> {
        let _ends = Ends(self.0.clone());
        let name = match request.get_ref().latitude {
            FAILS => return Err(failure()),
            PANICS => panic!("as the test wants"),
            HANGS => std::future::pending().await,
            TELLS_THREAD => std::thread::current().name().unwrap_or_default().to_owned(),
            _ => {
                assert!(request.remote_addr().is_some_and(|address| address.ip().is_loopback()));
                assert!(request.extensions().get::<Arc<Peer>>().is_some());
                "a place".to_owned()
            }
        };
        let mut response = Response::new(Feature { name, location: None });
        for key in ["from", "raw-bin", "grpc-timeout"] {
            if let Some(value) = request.metadata().as_ref().get(key) {
                let key = if key == "grpc-timeout" { "told" } else { key };
                let fields = response.metadata_mut().as_mut();
                fields.insert(key, value.clone());
            }
        }
        Ok(response)
    }

    type ListFeaturesStream = BoxStream<Feature>;

    /// Endless, unless it must fail.
    async fn list_features(
        &self,
        request: Request<Rectangle>,
    ) -> Result<Response<BoxStream<Feature>>, Status> {
        let (seen, ends) = (self.0.clone(), Ends(self.0.clone()));
        let fails = request.get_ref().lo.is_some();
        let features = tokio_stream::iter(0..).map(move |number| {
            let _ = &ends;
            if fails && number == 3 {
                return Err(failure());
            }
            seen.sent.add();
            Ok(Feature { name: "x".repeat(10_000), location: None })
        });
        Ok(Response::new(Box::pin(features)))
    }

    async fn record_route(
        &self,
        request: Request<Streaming<Point>>,
    ) -> Result<Response<RouteSummary>, Status> {
        let mut points = request.into_inner();
        let mut summary = RouteSummary::default();
        while let Some(point) = points.message().await? {
            summary.point_count += 1;
            summary.feature_count += point.latitude;
        }
        Ok(Response::new(summary))
    }

    type RouteChatStream = BoxStream<RouteNote>;

    async fn route_chat(
        &self,
        request: Request<Streaming<RouteNote>>,
    ) -> Result<Response<BoxStream<RouteNote>>, Status> {
        Ok(Response::new(Box::pin(request.into_inner())))
    }
}

fn serve(guide: &Guide, config: GrpcConfig) -> Server {
    let server = Server::builder().add_tonic(RouteGuideServer::new(guide.clone()));
    server.grpc("127.0.0.1:0", config).start().expect("loopback has ports")
}

async fn tonic_client(server: &Server) -> TonicClient<TonicChannel> {
    let address = server.grpc_address().expect("it has a gRPC port");
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let endpoint = endpoint.initial_stream_window_size(64 << 10); // 2 MiB otherwise
    TonicClient::new(endpoint.connect().await.expect("it listens"))
}

async fn native_client(server: &Server) -> RouteGuideClient {
    let address = server.grpc_address().expect("it has a gRPC port");
    let channel = Channel::connect(&format!("grpc://{address}")).await.expect("it listens");
    RouteGuideClient::new(channel)
}

fn at(latitude: i32) -> Point {
    Point { latitude, longitude: 0 }
}

fn notes(count: usize) -> impl Stream<Item = RouteNote> {
    let note = |number| RouteNote { location: None, message: format!("note {number}") };
    tokio_stream::iter((0..count).map(note))
}

async fn until(what: impl Fn() -> bool) {
    let waits = async {
        while !what() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, waits).await.expect("it happens");
}

#[tokio::test]
async fn tonics_client_makes_all_kinds_of_calls() {
    let server = serve(&Guide::default(), GrpcConfig::default());
    let mut client = tonic_client(&server).await;
    let mut request = Request::new(at(50));
    request.metadata_mut().insert("from", "me".parse().unwrap());
    request.metadata_mut().insert_bin("raw-bin", MetadataValue::from_bytes(&[0, 255]));
    let response = client.get_feature(request).await.expect("it is answered");
    assert_eq!(response.metadata().get("from").unwrap(), "me");
    let raw = response.metadata().get_bin("raw-bin").unwrap().to_bytes().unwrap();
    assert_eq!((&raw[..], &*response.get_ref().name), (&[0, 255][..], "a place"));

    let status = client.get_feature(at(FAILS)).await.expect_err("it fails");
    assert_eq!((status.code(), status.message()), (tonic::Code::NotFound, "not höre"));
    assert_eq!(
        (status.details(), status.metadata().get("why").unwrap().as_bytes()),
        (&[1, 2, 3][..], &b"empty"[..])
    );

    let area = Rectangle { lo: Some(at(0)), hi: None };
    let mut features = client.list_features(area).await.expect("it begins").into_inner();
    for _ in 0..3 {
        assert_eq!(features.message().await.unwrap().expect("there is more").name.len(), 10_000);
    }
    let status = features.message().await.expect_err("it fails");
    assert_eq!((status.code(), status.details()), (tonic::Code::NotFound, &[1, 2, 3][..]));

    let points = tokio_stream::iter((0..1000).map(|_| at(2)));
    let summary = client.record_route(points).await.expect("it is answered").into_inner();
    assert_eq!((summary.point_count, summary.feature_count), (1000, 2000));

    let mut chat = client.route_chat(notes(1000)).await.expect("it begins").into_inner();
    let mut heard = 0;
    while let Some(note) = chat.message().await.expect("it goes on") {
        assert_eq!(note.message, format!("note {heard}"));
        heard += 1;
    }
    assert_eq!(heard, 1000);
}

#[tokio::test]
async fn petasos_client_makes_all_kinds_of_calls() {
    let server = serve(&Guide::default(), GrpcConfig::default());
    let client = native_client(&server).await;
    let request = NativeRequest::new(message!(native::Point { latitude: 50 }));
    let request = request.with_metadata("from", "me").unwrap();
    let response = client.get_feature(request).await.expect("it is answered");
    assert_eq!((response.name(), response.metadata().get("from")), ("a place", Some("me")));

    let point = message!(native::Point { latitude: FAILS });
    let status = client.get_feature(point).await.expect_err("it fails");
    assert_eq!((status.code(), status.message()), (Code::NotFound, "not höre"));
    assert_eq!((status.details(), status.metadata().get("why")), (&[1, 2, 3][..], Some("empty")));

    let area = message!(native::Rectangle { lo: { latitude: 0 } });
    let mut features = client.list_features(area).await.expect("it begins");
    for _ in 0..3 {
        assert!(features.message().await.unwrap().is_some());
    }
    assert_eq!(features.message().await.expect_err("it fails").code(), Code::NotFound);

    let mut upload = client.record_route();
    for _ in 0..100 {
        upload.send(message!(native::Point { latitude: 2 })).await.expect("it goes on");
    }
    let summary = upload.finish().await.expect("it is answered");
    assert_eq!((summary.point_count(), summary.feature_count()), (100, 200));

    let (mut send, mut receive) = client.route_chat().await.expect("it begins");
    for number in 0..100 {
        let message = format!("note {number}");
        send.send(message!(native::RouteNote { message: &message })).await.expect("it goes on");
        assert_eq!(receive.message().await.unwrap().expect("an echo").message(), message);
    }
    drop(send);
    assert!(receive.message().await.unwrap().is_none());
}

#[tokio::test]
async fn handlers_are_dropped_at_deadlines_and_when_nobody_waits() {
    let guide = Guide::default();
    let server = serve(&guide, GrpcConfig::default());
    let client = native_client(&server).await;
    let point = || NativeRequest::new(message!(native::Point { latitude: HANGS }));
    let call = client.get_feature(point().with_timeout(Duration::from_millis(50)));
    assert_eq!(call.await.expect_err("it hangs").code(), Code::DeadlineExceeded);
    until(|| guide.0.dropped.get() == 1).await;

    let mut client = tonic_client(&server).await;
    let call = timeout(Duration::from_millis(50), client.get_feature(at(HANGS)));
    assert!(call.await.is_err(), "it hangs, and is given up");
    until(|| guide.0.dropped.get() == 2).await;

    let mut request = Request::new(at(50));
    request.set_timeout(Duration::from_secs(40));
    let response = client.get_feature(request).await.expect("it is answered");
    let told = response.metadata().get("told").expect("the handler knows it").to_str().unwrap();
    let us: u64 = told.strip_suffix('u').expect("microseconds").parse().unwrap();
    assert!(us <= 40_000_000, "{us}");
}

#[tokio::test]
async fn panics_long_requests_and_unknown_methods_have_their_status() {
    let mut config = GrpcConfig::default();
    config.receive_bytes_max = 1000;
    let server = serve(&Guide::default(), config);
    let mut client = tonic_client(&server).await;
    let status = client.get_feature(at(PANICS)).await.expect_err("it panics");
    assert_eq!(status.code(), tonic::Code::Internal);
    let long = RouteNote { location: None, message: "x".repeat(2000) };
    let mut chat = client.route_chat(tokio_stream::iter([long])).await.unwrap().into_inner();
    let status = chat.message().await.expect_err("it is too long");
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
    let channel = format!("grpc://{}", server.grpc_address().unwrap());
    let channel = Channel::connect(&channel).await.unwrap();
    for (service, method) in [("routeguide.RouteGuide", "Other"), ("routeguide.Other", "Any")] {
        let service = Service::named(service, &[(method, MethodKind::Unary)]).unwrap();
        let request = Payload::from_bytes(b"").unwrap();
        let call = Client::new(&channel, service).unary(method, request).unwrap();
        assert_eq!(call.await.expect_err("it is not served").code(), Code::Unimplemented);
    }
    client.get_feature(at(50)).await.expect("no other call was harmed");
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_stream() {
    let guide = Guide::default();
    let server = serve(&guide, GrpcConfig::default());
    let mut client = tonic_client(&server).await;
    let features = client.list_features(Rectangle::default()).await.expect("it begins");
    let sent = || guide.0.sent.get();
    let mut before = usize::MAX;
    while before != sent() {
        before = sent();
        sleep(Duration::from_millis(200)).await;
    }
    // The client's window of 64 KiB, what the port keeps (256 KiB), what tonic encodes at once.
    assert!((1..100).contains(&sent()), "{} messages of 10 KB", sent());
    drop(features);
    until(|| guide.0.dropped.get() == 1).await;
}

#[test]
fn handlers_run_on_the_ports_threads_or_on_the_runtime_that_is_named() {
    let own = serve(&Guide::default(), GrpcConfig::default());
    let named = tokio::runtime::Builder::new_multi_thread().thread_name("named").build().unwrap();
    let guide = Guide::default();
    let there = Server::builder()
        .add_tonic_on(named.handle().clone(), RouteGuideServer::new(guide.clone()))
        .grpc("127.0.0.1:0", GrpcConfig::default())
        .start()
        .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let thread = tonic_client(&own).await.get_feature(at(TELLS_THREAD)).await.unwrap();
        assert_eq!(thread.get_ref().name, "petasos-grpc-0");
        let mut client = tonic_client(&there).await;
        let thread = client.get_feature(at(TELLS_THREAD)).await.unwrap();
        assert_eq!(thread.get_ref().name, "named");
        let status = client.get_feature(at(PANICS)).await.expect_err("it panics");
        assert_eq!(status.code(), tonic::Code::Internal);
        let before = guide.0.dropped.get();
        let call = timeout(Duration::from_millis(50), client.get_feature(at(HANGS)));
        assert!(call.await.is_err(), "it hangs, and is given up");
        until(|| guide.0.dropped.get() == before + 1).await;
    });
}

#[test]
fn servers_that_would_not_do_as_they_say_do_not_start() {
    let guide = || RouteGuideServer::new(Guide::default());
    let port = |server: petasos::ServerBuilder| server.grpc("127.0.0.1:0", GrpcConfig::default());
    let twice = port(Server::builder().add_tonic(guide()).add_tonic(guide()));
    assert!(matches!(twice.start(), Err(StartError::GrpcServiceTwice(_))));
    let unreachable = Server::builder().add_tonic(guide());
    assert!(matches!(unreachable.start(), Err(StartError::NoGrpcPort(_))));
    let unseen = port(Server::builder().add_tonic(guide())).intercept(Metrics::default());
    assert!(matches!(unseen.start(), Err(StartError::NotIntercepted(_))));
}
