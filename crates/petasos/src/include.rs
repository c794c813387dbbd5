//! Including generated code in programs.

/// Includes the code that `petasos-codegen` wrote to `OUT_DIR` for a package. Use it in a module of
/// its own, with the package's full name as the argument.
///
/// ```ignore
/// mod routeguide {
///     petasos::include_proto!("routeguide");
/// }
/// ```
///
/// To include the single file that [`include_file`] of the builder writes, with all packages in
/// their modules, give its name: `petasos::include_proto!(file "protos.rs")`.
///
/// [`include_file`]: https://docs.rs/petasos-codegen
#[macro_export]
macro_rules! include_proto {
    (file $file:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $file));
    };
    ($package:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $package, ".rs"));
    };
}
