//! Generates the interface with the system's `capnp`.

fn main() {
    let generated = capnpc::CompilerCommand::new().file("bench.capnp").run();
    generated.expect("`capnp` is there: the Debian package `capnproto` has it");
}
