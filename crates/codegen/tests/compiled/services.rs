//! Services of all four kinds, against the signatures of `petasos::rt`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::calls::{
    Channel, Idempotency, MethodInfo, MethodKind, Methods, Request, Response, Sender, Service,
    Status, Streaming,
};
use crate::protos::routeguide::{
    Feature, LaterServer, Point, Rectangle, RouteGuide, RouteGuideClient, RouteGuideServer,
    RouteNote, RouteSummary,
};

struct Guide;

impl RouteGuide for Guide {
    async fn get_feature(&self, request: Request<Point>) -> Result<Response<Feature>, Status> {
        let mut feature = Feature::new();
        feature.edit().set_location(&request);
        Ok(Response(feature))
    }

    async fn list_features(
        &self,
        area: Request<Rectangle>,
        mut out: Sender<Feature>,
    ) -> Result<(), Status> {
        match area.lo() {
            Some(_) => out.send(Feature::new()).await,
            None => Err(Status("no area".to_owned())),
        }
    }

    async fn record_route(
        &self,
        mut points: Streaming<Point>,
    ) -> Result<Response<RouteSummary>, Status> {
        let mut summary = RouteSummary::new();
        while points.message().await?.is_some() {
            let count = summary.point_count() + 1;
            summary.edit().set_point_count(count);
        }
        Ok(Response(summary))
    }

    async fn route_chat(
        &self,
        mut notes: Streaming<RouteNote>,
        mut out: Sender<RouteNote>,
    ) -> Result<(), Status> {
        while let Some(note) = notes.message().await? {
            out.send(note).await?;
        }
        Ok(())
    }
}

struct NotYet;

impl crate::protos::routeguide::Later for NotYet {}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

#[test]
fn handlers_are_async_functions() {
    let mut point = Point::new();
    point.edit().set_latitude(1);
    let feature = ready(Guide.get_feature(point.clone().into())).expect("it was found");
    assert_eq!(feature.0.location(), Some(&**point));
    let nowhere = ready(Guide.list_features(Rectangle::new().into(), Sender(Default::default())));
    assert_eq!(nowhere, Err(Status("no area".to_owned())));
    let route = Streaming(vec![Point::new(), Point::new()]);
    let summary = ready(Guide.record_route(route)).expect("it was recorded");
    assert_eq!(summary.0.point_count(), 2);
}

#[test]
fn a_server_knows_its_methods_by_number() {
    let server = RouteGuideServer::new(Guide);
    let info = server.info();
    assert_eq!(info.name, "routeguide.RouteGuide");
    let (id, service) = info.module.schema().service_by_name(info.name).expect("it is there");
    assert_eq!((id.index() as u32, service.hash().to_bytes()), (info.index, info.hash));
    let names: Vec<&str> = info.methods.iter().map(|method| method.name).collect();
    assert_eq!(names, ["GetFeature", "ListFeatures", "RecordRoute", "RouteChat"]);
    let expected = MethodInfo {
        name: "GetFeature",
        index: 0,
        kind: MethodKind::Unary,
        idempotency: Idempotency::NoSideEffects,
    };
    assert_eq!(info.methods[0], expected);

    let mut methods = Methods::default();
    server.methods(&mut methods);
    assert_eq!(
        methods.0,
        [
            (0, MethodKind::Unary),
            (1, MethodKind::ServerStreaming),
            (2, MethodKind::ClientStreaming),
            (3, MethodKind::Bidirectional),
        ]
    );
    let mut none = Methods::default();
    LaterServer::new(NotYet).methods(&mut none);
    assert!(none.0.is_empty());
}

#[test]
fn a_client_calls_what_its_methods_are_called() {
    let guide = RouteGuideClient::new(Channel).clone();
    assert_eq!(guide.get_feature(Point::new()).0, "routeguide.RouteGuide/GetFeature");
    assert_eq!(guide.list_features(Rectangle::new()).0, "routeguide.RouteGuide/ListFeatures");
    assert_eq!(guide.record_route().0, "routeguide.RouteGuide/RecordRoute");
    assert_eq!(guide.route_chat().0, "routeguide.RouteGuide/RouteChat");
}
