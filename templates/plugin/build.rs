//! Settings of the linker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A module has 1 MiB of memory unless its policy says otherwise, and that is as much as the
    // stack alone would have.
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "wasm32") {
        println!("cargo::rustc-link-arg-cdylib=-zstack-size=65536");
    }
}
