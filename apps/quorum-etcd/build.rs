//! Compiles etcd's services.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().include("proto").compile(&["proto/rpc.proto"])?;
    Ok(())
}
