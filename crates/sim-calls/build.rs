//! Compiles the simulated service.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    petasos_codegen::configure().compile(&["protos/sim.proto"])?;
    Ok(())
}
