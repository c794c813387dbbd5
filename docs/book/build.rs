//! Compiles the chapters' service in two versions, and that of the example `hello`.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    petasos_codegen::configure().owned(true).compile(&["protos/guide.proto"])?;
    petasos_codegen::configure().compile(&["../../examples/hello/protos/hello.proto"])?;
    let newer = Path::new(&std::env::var("OUT_DIR")?).join("newer");
    std::fs::create_dir_all(&newer)?;
    petasos_codegen::configure().out_dir(newer).compile(&["protos/newer/guide.proto"])?;
    Ok(())
}
