//! Generated code in programs.

/// Includes what `petasos-codegen` has written to `OUT_DIR` for a package: in a module of its own,
/// with the package's full name as the argument.
///
/// ```ignore
/// mod routeguide {
///     petasos::include_proto!("routeguide");
/// }
/// ```
///
/// What [`include_file`] of the builder has written, with all packages in their modules, is
/// included by its name instead: `petasos::include_proto!(file "protos.rs")`.
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
