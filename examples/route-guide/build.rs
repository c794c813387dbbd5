//! Compiles the service; no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().owned(true).compile(&["protos/route_guide.proto"])?;
    Ok(())
}
