//! With feature `dpdk`: finds DPDK, compiles the shim that calls it, and generates Rust
//! declarations of the shim. Without it, nothing.

fn main() {
    println!("cargo::rerun-if-changed=shim");
    #[cfg(feature = "dpdk")]
    bind::run();
}

#[cfg(feature = "dpdk")]
mod bind {
    use std::path::PathBuf;
    use std::process::Command;

    pub fn run() {
        let library = pkg_config::Config::new().atleast_version("22.11").probe("libdpdk");
        let library = library.unwrap_or_else(|error| {
            panic!("feature `dpdk` needs DPDK (Debian: libdpdk-dev pkg-config): {error}")
        });
        let mut build = cc::Build::new();
        build.file("shim/shim.c").includes(&library.include_paths);
        // The headers must be compiled with the same options as DPDK: `-include` and `-march`.
        for flag in flags() {
            build.flag(flag);
        }
        build.warnings(false).compile("pd_shim");
        // The shim is a static library, so DPDK's libraries must follow it in link order.
        for name in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"] {
            println!("cargo::rustc-link-lib={name}");
        }
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it for build.rs"));
        bindgen::Builder::default()
            .header("shim/shim.h")
            .allowlist_item("pd_.*|PD_.*")
            .layout_tests(false)
            .generate_comments(false)
            .generate()
            .expect("the shim's header is C (bindgen needs Debian's libclang-dev)")
            .write_to_file(out.join("dpdk.rs"))
            .expect("cargo's output folder can be written to");
    }

    fn flags() -> Vec<String> {
        let output = Command::new("pkg-config").args(["--cflags", "libdpdk"]).output();
        let output = output.expect("pkg-config has just been used");
        let text = String::from_utf8(output.stdout).expect("flags are text");
        text.split_whitespace().map(str::to_owned).collect()
    }
}
