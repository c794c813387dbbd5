//! Compiles what statuses carry, what `petasos serve` serves with types, and what the tests of
//! typed commands serve.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().include("protos").compile(&[
        "protos/demo.proto",
        "protos/shelf.proto",
        "protos/status.proto",
    ])?;
    Ok(())
}
