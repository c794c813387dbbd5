//! Compiles the service.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().include("protos").compile(&["protos/search.proto"])?;
    Ok(())
}
