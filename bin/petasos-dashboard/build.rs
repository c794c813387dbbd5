//! Compiles what the tests serve: the service with which those of `petasos` are tested, too.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = "../petasos/protos";
    petasos_codegen::configure().include(folder).compile(&[format!("{folder}/shelf.proto")])?;
    Ok(())
}
