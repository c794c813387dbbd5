//! The route guide, written for tonic, without any dependency on Petasos.

use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::{self, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use crate::generated::route_guide_server::RouteGuide;
use crate::messages::{Feature, Point, Rectangle, RouteNote, RouteSummary};

/// Names places by their coordinates.
pub struct Guide;

fn feature(point: Point) -> Feature {
    let name = format!("{}, {}", point.latitude, point.longitude);
    Feature { name, location: Some(point) }
}

#[tonic::async_trait]
impl RouteGuide for Guide {
    async fn get_feature(&self, request: Request<Point>) -> Result<Response<Feature>, Status> {
        let point = request.into_inner();
        if point.latitude.abs() > 90 {
            return Err(Status::invalid_argument("no place is so far north or south"));
        }
        Ok(Response::new(feature(point)))
    }

    type ListFeaturesStream = BoxStream<Feature>;

    async fn list_features(
        &self,
        request: Request<Rectangle>,
    ) -> Result<Response<BoxStream<Feature>>, Status> {
        let Rectangle { lo: Some(lo), hi: Some(hi) } = request.into_inner() else {
            return Err(Status::invalid_argument("an area has two corners"));
        };
        let points = (lo.latitude..=hi.latitude)
            .map(move |latitude| Point { latitude, longitude: lo.longitude });
        let features = tokio_stream::iter(points.map(|point| Ok(feature(point))));
        Ok(Response::new(Box::pin(features)))
    }

    async fn record_route(
        &self,
        request: Request<Streaming<Point>>,
    ) -> Result<Response<RouteSummary>, Status> {
        let mut points = request.into_inner();
        let mut summary = RouteSummary::default();
        while points.message().await?.is_some() {
            summary.point_count += 1;
        }
        Ok(Response::new(summary))
    }

    type RouteChatStream = BoxStream<RouteNote>;

    async fn route_chat(
        &self,
        request: Request<Streaming<RouteNote>>,
    ) -> Result<Response<BoxStream<RouteNote>>, Status> {
        let notes = request.into_inner().map(|note| {
            let note = note?;
            Ok(RouteNote { message: format!("you said: {}", note.message), ..note })
        });
        Ok(Response::new(Box::pin(notes)))
    }
}
