//! Compiles what is used of OTLP, and the services of the tests, with Petasos' generator and with
//! tonic's; no `protoc` is needed.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

/// A method of `managed.proto`, all of whose messages are of one type.
fn method(name: &str, path: &str) -> MethodBuilder {
    let method =
        Method::builder().name(name).route_name(path).codec_path("tonic_prost::ProstCodec");
    method.input_type("crate::tonic_work::Item").output_type("crate::tonic_work::Item")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().compile(&["proto/otlp/trace.proto"])?;
    petasos_codegen::configure().owned(true).compile(&["tests/protos/managed.proto"])?;
    let work = Service::builder().name("Work").package("managed");
    let work = work
        .method(method("echo", "Echo").build())
        .method(method("fail", "Fail").build())
        .method(method("hold", "Hold").build())
        .method(method("count", "Count").server_streaming().build())
        .method(method("sum", "Sum").client_streaming().build())
        .method(method("chat", "Chat").client_streaming().server_streaming().build());
    Builder::new().compile(&[work.build()]);
    Ok(())
}
