//! Files in and out, and what is said when there are none.

use std::fs;
use std::path::PathBuf;

use petasos_codegen::{Error, configure};

const PROTOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");

/// An empty directory of one test.
fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("cargo gives tests a directory");
    path
}

fn names(directory: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory is there");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("entries can be read").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

#[test]
fn each_package_gets_a_file() {
    let out = directory("each_package");
    let builder = configure().include(PROTOS).out_dir(&out).include_file("all.rs");
    builder.compile(&[format!("{PROTOS}/torture/bare.proto")]).expect("the files are valid");
    assert_eq!(names(&out), ["_.rs", "all.rs", "torture.type.async.rs", "torture.type.rs"]);
}

#[test]
fn a_file_that_is_as_it_should_be_is_not_written() {
    let out = directory("not_written");
    let compile = || {
        let builder = configure().include(PROTOS).out_dir(&out);
        builder.compile(&[format!("{PROTOS}/note.proto")]).expect("the file is valid");
    };
    compile();
    let path = out.join("notes.rs");
    let text = fs::read_to_string(&path).expect("it was written");
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let file = fs::File::options().append(true).open(&path).expect("it can be opened");
    file.set_modified(long_ago).expect("times can be set");
    compile();
    let modified = fs::metadata(&path).and_then(|data| data.modified()).expect("it has a time");
    assert_eq!(modified, long_ago, "written again");
    fs::write(&path, "something else").expect("it can be written");
    compile();
    assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
}

#[test]
fn without_directories_those_of_the_files_are_searched() {
    let generated = configure().generate(&[format!("{PROTOS}/note.proto")]);
    assert!(generated.expect("the file is found").contains_key(&PathBuf::from("notes.rs")));
}

#[test]
fn types_of_other_crates_are_not_generated() {
    let builder = configure().include(PROTOS).extern_path(".torture.type.async", "::other::types");
    let generated = builder.generate(&[format!("{PROTOS}/torture/inner.proto")]);
    let generated = generated.expect("the files are valid");
    assert_eq!(generated.len(), 1);
    let text = &generated[&PathBuf::from("torture.type.rs")];
    assert!(text.contains("deepest: rt::Link<::other::types::Deepest>"));
    assert!(text.contains("-> ::other::types::DeepestMut<'_>"));
}

#[test]
fn services_can_be_left_out() {
    let builder = configure().services(false);
    let generated = builder.generate(&[format!("{PROTOS}/route_guide.proto")]);
    let generated = generated.expect("the file is valid");
    let text = &generated[&PathBuf::from("routeguide.rs")];
    assert!(text.contains("pub struct RouteNote") && !text.contains("pub trait"));
}

#[test]
fn errors_say_where_and_debug_shows_it_too() {
    for (file, expected) in [
        ("broken.proto", ":7:3: name 'Missing' is not defined"),
        ("old.proto", ":5:9: `old.Old` is declared with proto2"),
    ] {
        let error = configure().generate(&[format!("{PROTOS}/{file}")]).expect_err("it is broken");
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("{PROTOS}/{file}{expected}")), "{shown}");
        assert_eq!(format!("{error:?}"), shown);
    }
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let out = directory("not_there").join("missing");
    let error = configure().out_dir(&out).compile(&[format!("{PROTOS}/note.proto")]);
    let Err(Error::Write { path, .. }) = error else { panic!("{error:?}") };
    assert_eq!(path, out.join("notes.rs"));
}

#[test]
fn messages_have_as_many_fields_as_plans_can() {
    let directory = directory("many_fields");
    let path = directory.join("wide.proto");
    let generate = |count: usize| {
        let mut text = "syntax = \"proto3\";\nmessage Wide {\n".to_owned();
        // Numbers from 19000 on are reserved: all are above.
        (0..count).for_each(|at| text += &format!("bool f{at} = {};\n", at + 20_000));
        fs::write(&path, text + "}\n").expect("it can be written");
        configure().generate(&[&path])
    };
    let error = generate(petasos_message::FIELDS_MAX + 1).expect_err("one too many");
    assert_eq!(error.to_string(), "`Wide` has more than 65535 fields: split it");
    assert!(generate(petasos_message::FIELDS_MAX).is_ok());
}

#[test]
fn a_schema_that_programs_would_not_read_is_refused() {
    let path = directory("many_messages").join("many.proto");
    let mut text = "syntax = \"proto3\";\n".to_owned();
    for at in 0..600 {
        text += &format!("message M{at} {{\n");
        (1..501).for_each(|field| text += &format!("bool f{field} = {field};\n"));
        text += "}\n";
    }
    fs::write(&path, text).expect("it can be written");
    let error = configure().generate(&[&path]).expect_err("it is too large");
    assert!(matches!(error, Error::TooLarge(_)), "{error}");
}
