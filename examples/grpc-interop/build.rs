//! Compiles the services of gRPC's interoperability tests.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().compile(&["protos/test.proto"])?;
    Ok(())
}
