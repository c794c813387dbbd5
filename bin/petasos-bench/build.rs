//! Compiles the services that `petasos bench rpc` and `managed` call.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["protos/bench.proto", "protos/policies.proto", "protos/wide.proto"];
    // Each by itself: a schema has all messages of what is compiled together, and `bind` measures
    // by their number.
    for file in files {
        petasos_codegen::configure().include("protos").compile(&[file])?;
    }
    Ok(())
}
