//! Compiles the service that `petasos bench rpc` calls, what statuses carry, and what the tests of
//! typed commands serve.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().include("protos").compile(&[
        "protos/bench.proto",
        "protos/shelf.proto",
        "protos/status.proto",
    ])?;
    Ok(())
}
