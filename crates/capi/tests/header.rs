//! The header says what the library has.

use std::path::Path;

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

const HEADER: &str = "include/petasos.h";

const INTRODUCTION: &str = "/*
 * Petasos: remote procedure calls whose messages are bytes in protobuf's encoding.
 *
 * Handles belong to whoever got them, and are freed with the function of their type; no handle is
 * used by one thread while another frees it. Functions may be called from any number of threads at
 * once unless a type says otherwise. What is passed in is copied if it is kept.
 *
 * Functions that can fail return a petasos_code. Above 0 it is one of gRPC's codes, and
 * petasos_last_error has more to say, for the thread that made the call. Results are written only
 * with PETASOS_OK. The same codes tell how calls ended.
 *
 * The library's threads block SIGPIPE: a connection that its peer has closed does not end the
 * program.
 *
 * Nothing here may be used in a child process after fork(2), until it executes another program.
 *
 * Link with -lpetasos.
 *
 * Generated from the crate petasos-capi: changes will be lost.
 */";

fn generate(folder: &Path) -> String {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        include_guard: Some("PETASOS_H".into()),
        header: Some(INTRODUCTION.into()),
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(Into::into).into(),
        documentation_style: DocumentationStyle::C99,
        style: Style::Type,
        usize_is_size_t: true,
        line_length: 100,
        tab_width: 4,
        ..Config::default()
    };
    config.export.include = vec!["petasos_wake".into()];
    let builder = Builder::new().with_config(config).with_src(folder.join("src/lib.rs"));
    let bindings = builder.generate().expect("the sources can be read");
    let mut header = Vec::new();
    bindings.write(&mut header);
    String::from_utf8(header).expect("the header is text")
}

#[test]
fn the_header_is_what_cbindgen_makes_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (made, path) = (generate(folder), folder.join(HEADER));
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "{HEADER} is old; UPDATE_HEADER=1 makes it anew");
}

#[test]
fn the_header_has_every_function() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(folder.join(HEADER)).expect("the header is there");
    let mut count = 0;
    for entry in std::fs::read_dir(folder.join("src")).expect("there are sources") {
        let path = entry.expect("it can be listed").path();
        let source = std::fs::read_to_string(&path).expect("it can be read");
        for (_, rest) in source
            .match_indices("extern \"C\" fn petasos_")
            .map(|(at, text)| (at, &source[at + text.len()..]))
        {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            let name = format!("petasos_{}(", name.expect("a split has parts"));
            let found = header.matches(&format!("\n{name}")).count()
                + header.matches(&format!(" {name}")).count()
                + header.matches(&format!("*{name}")).count();
            assert_eq!(found, 1, "{name}…) of {} is not there once", path.display());
            count += 1;
        }
    }
    assert!(count > 40, "only {count} functions were found");
}
