//! Compiles the service that `petasos bench rpc` calls.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().include("protos").compile(&["protos/bench.proto"])?;
    Ok(())
}
