//! Envoy's configuration on one host: calls of the host's services leave through one listener, and
//! calls to them come in through another. The settings are those of `bench/sidecars/envoy.yaml`:
//! HTTP/2 on both sides, windows that hold all calls in progress, no access log, no statistics of
//! the router, no generated headers.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::service::Service;

/// Where calls of a service go.
pub struct Route {
    pub service: Service,
    pub address: SocketAddr,
}

/// The configuration: for each direction, where to listen and where calls go.
pub fn configuration(out: (SocketAddr, &[Route]), inside: (SocketAddr, &[Route])) -> Value {
    let both = [("out", out), ("in", inside)];
    let listeners = both.map(|(name, (address, routes))| listener(name, address, routes));
    let clusters = both.into_iter().flat_map(|(name, (_, routes))| {
        routes.iter().map(move |route| cluster(&cluster_name(name, route.service), route.address))
    });
    json!({
        "stats_config": { "stats_matcher": { "reject_all": true } },
        "static_resources": {
            "listeners": listeners,
            "clusters": clusters.collect::<Vec<_>>(),
        },
    })
}

fn cluster_name(direction: &str, service: Service) -> String {
    format!("{direction}-{}", service.name())
}

/// The path of a service's calls: its package, and its name with a capital letter.
fn path(service: Service) -> String {
    let name = service.name();
    let (first, rest) = name.split_at(1);
    format!("/hotel.{name}.{}{rest}/", first.to_uppercase())
}

fn address(at: SocketAddr) -> Value {
    json!({ "socket_address": { "address": at.ip().to_string(), "port_value": at.port() } })
}

fn http2() -> Value {
    json!({
        "max_concurrent_streams": 1024,
        "initial_stream_window_size": 16_777_216,
        "initial_connection_window_size": 33_554_432,
    })
}

fn listener(name: &str, at: SocketAddr, routes: &[Route]) -> Value {
    let route = |route: &Route| {
        json!({
            "match": { "prefix": path(route.service) },
            "route": { "cluster": cluster_name(name, route.service), "timeout": "0s" },
        })
    };
    let manager = "envoy.extensions.filters.network.http_connection_manager.v3";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    json!({
        "name": name,
        "address": address(at),
        "per_connection_buffer_limit_bytes": 33_554_432,
        "filter_chains": [{ "filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": format!("type.googleapis.com/{manager}.HttpConnectionManager"),
                "codec_type": "HTTP2",
                "stat_prefix": name,
                "generate_request_id": false,
                "http2_protocol_options": http2(),
                "route_config": { "virtual_hosts": [{
                    "name": "all",
                    "domains": ["*"],
                    "routes": routes.iter().map(route).collect::<Vec<_>>(),
                }] },
                "http_filters": [{
                    "name": "envoy.filters.http.router",
                    "typed_config": {
                        "@type": router,
                        "dynamic_stats": false,
                        "suppress_envoy_headers": true,
                    },
                }],
            },
        }] }],
    })
}

fn cluster(name: &str, at: SocketAddr) -> Value {
    let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "per_connection_buffer_limit_bytes": 33_554_432,
        "circuit_breakers": { "thresholds": [{
            "max_connections": 1024,
            "max_pending_requests": 65_536,
            "max_requests": 65_536,
        }] },
        "typed_extension_protocol_options": {
            options: {
                "@type": format!("type.googleapis.com/{options}"),
                "explicit_http_config": { "http2_protocol_options": http2() },
            },
        },
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address(at) } }] }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_its_cluster() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let route = |service, port| Route { service, address: at(port) };
        let out = [route(Service::Geo, 1), route(Service::Rate, 2)];
        let all = configuration((at(10), &out), (at(11), &[route(Service::Geo, 3)]));
        let clusters = all["static_resources"]["clusters"].as_array().expect("there are some");
        let names: Vec<_> = clusters.iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["out-geo", "out-rate", "in-geo"]);
        let text = all.to_string();
        for name in names {
            assert!(text.contains(&format!(r#""cluster":"{name}""#)), "{name}");
        }
        assert!(text.contains(r#""prefix":"/hotel.geo.Geo/""#), "{text}");
    }

    #[test]
    fn paths_are_those_of_the_services() {
        use tonic::server::NamedService;

        use crate::messages::{geo, recommendation};

        type Geo = geo::geo_server::GeoServer<()>;
        type Recommendation = recommendation::recommendation_server::RecommendationServer<()>;
        assert_eq!(path(Service::Geo), format!("/{}/", Geo::NAME));
        assert_eq!(path(Service::Recommendation), format!("/{}/", Recommendation::NAME));
    }
}
