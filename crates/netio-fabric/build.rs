//! With feature `fabric`: finds libfabric, compiles the shim that makes libfabric's inline
//! functions linkable, and generates Rust declarations for both. Without it, does nothing.

fn main() {
    println!("cargo::rerun-if-changed=shim");
    #[cfg(feature = "fabric")]
    bind::run();
}

#[cfg(feature = "fabric")]
mod bind {
    use std::path::PathBuf;

    const HEADER: &str = "shim/shim.h";

    pub fn run() {
        let library = pkg_config::Config::new().atleast_version("1.14").probe("libfabric");
        let library = library.unwrap_or_else(|error| {
            panic!("feature `fabric` needs libfabric (Debian: libfabric-dev pkg-config): {error}")
        });
        cc::Build::new().file("shim/shim.c").includes(&library.include_paths).compile("pf_shim");
        let include = library.include_paths.iter().map(|path| format!("-I{}", path.display()));
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it for build.rs"));
        bindgen::Builder::default()
            .header(HEADER)
            .clang_args(include)
            .allowlist_function("pf_.*|fi_(getinfo|freeinfo|dupinfo|fabric|strerror|version)")
            .allowlist_type("fi_cq_(msg|err)_entry|fi_context2|fi_threading|fi_ep_type")
            .allowlist_var("FI_.*")
            .prepend_enum_name(false)
            .layout_tests(false)
            .generate_comments(false)
            .generate()
            .expect("libfabric's headers are C (bindgen needs Debian's libclang-dev)")
            .write_to_file(out.join("fabric.rs"))
            .expect("cargo's output folder can be written to");
    }
}
