//! Compiles the suite's service.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().compile(&["protos/conformance.proto"])?;
    Ok(())
}
