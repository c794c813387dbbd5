//! Types and functions that all tasks share.

use std::path::{Path, PathBuf};

/// The text that `cargo xtask help` prints.
pub const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  ci [STEP…]          run every check, or the named steps, in order; stop at the first failure
  ci --list           list the steps
  consoles [FILE…]    run what the documentation shows, and compare; or only files of these names
  tidy                check what the compiler does not: layers, modules, lengths, unsafe, spec
  icount              measure instructions per RPC under callgrind
  icount --check      the same, and fail if they exceed what xtask/icount.toml allows
  icount --update     the same, and write xtask/icount.toml
  icount --typed      what typed calls cost beside raw ones and their messages
  icount --routed     what calls to a group of workers cost, with a router that only rewrites
  icount --kv         what a key-value request costs more than an echo
  icount --router     what the router's decision about a request costs
  icount --engine     what a null engine of the managed service costs per message
  icount --service    what a call between two applications of the managed service costs
  deb                 build petasosd, petasos and its dashboard, and a Debian package of them
  deb --wasm          the same, with plug-ins as WebAssembly modules
  deb --programs FOLDER
                      the same, of programs that were built before
  soak [--minutes N] [--times N] [PACKAGE…]
                      run all randomised tests with fresh seeds, for an hour unless told,
                      with N times the usual cases of each property
  fuzz [TARGET…] [--minutes N] [--address]
                      fuzz all targets or some, for 10 minutes in all if not told otherwise
  fuzz TARGET --replay FILE
                      run one input again
  fuzz [TARGET…] --seeds
                      write the committed corpus anew
  fuzz [TARGET…] --shrink
                      keep as few inputs of the corpus as cover what all of them cover
  sanitize [PACKAGE…] run tests of crates with unsafe code under the address sanitizer
  conformance protobuf
                      run protobuf's own conformance suite, which is fetched where it can be
  conformance grpc    run the connect project's suite on our gRPC client and server, likewise
  conformance interop run gRPC's interoperability tests with grpc-go at the other end, likewise
";

/// Why a task failed, as a message for the user.
pub type TaskResult = Result<(), String>;

/// The target folder of builds that must not disturb the main one.
pub fn target_folder(root: &Path, name: &str) -> PathBuf {
    let main = std::env::var_os("CARGO_TARGET_DIR");
    main.map_or_else(|| root.join("target"), |folder| root.join(folder)).join(name)
}
