//! Compiles what statuses carry, and what the tests of typed commands serve.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure()
        .include("protos")
        .compile(&["protos/shelf.proto", "protos/status.proto"])?;
    Ok(())
}
