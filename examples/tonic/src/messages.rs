//! The messages of `route_guide.proto`, written for `prost`.

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Point {
    #[prost(int32, tag = "1")]
    pub latitude: i32,
    #[prost(int32, tag = "2")]
    pub longitude: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Rectangle {
    #[prost(message, optional, tag = "1")]
    pub lo: Option<Point>,
    #[prost(message, optional, tag = "2")]
    pub hi: Option<Point>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Feature {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub location: Option<Point>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RouteNote {
    #[prost(message, optional, tag = "1")]
    pub location: Option<Point>,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct RouteSummary {
    #[prost(int32, tag = "1")]
    pub point_count: i32,
    #[prost(int32, tag = "2")]
    pub feature_count: i32,
}
