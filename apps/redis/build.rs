//! Compiles the service; no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().compile(&["protos/redis.proto"])?;
    Ok(())
}
