//! Generates the service twice: with tonic's generator, for the existing program, and with
//! Petasos', for a client that calls it.
//!
//! A tonic program usually generates its messages as well, with `tonic-prost-build`. Here they are
//! in `messages.rs`, so that the example needs no compiler for `.proto` files.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

fn method(name: &str, path: &str, input: &str, output: &str) -> MethodBuilder {
    let method =
        Method::builder().name(name).route_name(path).codec_path("tonic_prost::ProstCodec");
    let message = |name| format!("crate::messages::{name}");
    method.input_type(message(input)).output_type(message(output))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chat = method("route_chat", "RouteChat", "RouteNote", "RouteNote");
    let service = Service::builder()
        .name("RouteGuide")
        .package("routeguide")
        .method(method("get_feature", "GetFeature", "Point", "Feature").build())
        .method(
            method("list_features", "ListFeatures", "Rectangle", "Feature")
                .server_streaming()
                .build(),
        )
        .method(
            method("record_route", "RecordRoute", "Point", "RouteSummary")
                .client_streaming()
                .build(),
        )
        .method(chat.client_streaming().server_streaming().build())
        .build();
    Builder::new().compile(&[service]);
    petasos_codegen::configure().compile(&["protos/route_guide.proto"])?;
    Ok(())
}
