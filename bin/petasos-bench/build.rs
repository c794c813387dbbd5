//! Compiles the services that `petasos bench rpc`, `managed` and `router` call.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["bench.proto", "policies.proto", "routed.proto", "tensors.proto", "wide.proto"];
    // Each by itself: a schema has all messages of what is compiled together, and `bind` measures
    // by their number.
    for file in files {
        petasos_codegen::configure().include("protos").compile(&[format!("protos/{file}")])?;
    }
    // The application's own.
    petasos_codegen::configure()
        .include("../../apps/search/protos")
        .compile(&["../../apps/search/protos/search.proto"])?;
    Ok(())
}
