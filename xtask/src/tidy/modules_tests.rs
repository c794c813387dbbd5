use super::*;

/// The findings in a crate with these files, whose names are relative to its `src` folder.
fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
    findings_with("", files)
}

fn findings_with(allowed: &str, files: &[(&str, &str)]) -> Vec<Finding> {
    let sources: Vec<Source> = files
        .iter()
        .map(|(name, text)| Source::new(&FilePath::new("crates/x/src").join(name), text))
        .collect();
    let (mut allow, mut findings) = AllowList::parse(FilePath::new("allow.txt"), allowed);
    findings.extend(check(&sources, &mut allow));
    findings.extend(allow.unused());
    findings
}

fn clean(files: &[(&str, &str)]) {
    let found = findings(files);
    assert!(found.is_empty(), "{found:#?}");
}

fn circle(files: &[(&str, &str)]) -> Finding {
    let mut found = findings(files);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[test]
fn modules_that_use_each_other_in_one_direction_are_in_order() {
    clean(&[
        ("lib.rs", "mod a; mod b; mod c; use a::A; fn f(_: b::B) {}"),
        ("a.rs", "use crate::b::B; use super::c::{self, C}; pub struct A(B, c::D);"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "pub struct C; pub struct D;"),
    ]);
}

#[test]
fn a_circle_of_siblings_is_found_and_told() {
    let found = circle(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b::B;\npub struct A;\n"),
        ("b.rs", "pub struct B;\n\nfn f() { super::a::A; }\n"),
    ]);
    assert_eq!((found.rule, found.line), (RULE, 1));
    assert_eq!(found.path, FilePath::new("crates/x/src/a.rs"));
    assert!(found.advice.starts_with("`a`, `b` use each other"), "{}", found.advice);
    assert!(found.advice.contains("crates/x/src/b.rs:3 names `super::a::A`"), "{}", found.advice);
}

#[test]
fn a_long_circle_is_found() {
    let found = circle(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use super::b::B; pub struct A;"),
        ("b.rs", "use super::c::C; pub struct B;"),
        ("c.rs", "use super::a::A; pub struct C;"),
    ]);
    assert!(found.advice.starts_with("`a`, `b`, `c` use each other"), "{}", found.advice);
}

#[test]
fn a_folder_counts_as_one_with_all_that_is_in_it() {
    circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod one; mod two;"),
        ("a/one.rs", "use crate::b::B; pub struct One;"),
        ("a/two.rs", "pub struct Two;"),
        ("b.rs", "pub struct B(crate::a::two::Two);"),
    ]);
}

#[test]
fn every_folder_is_looked_at() {
    let found = circle(&[
        ("lib.rs", "mod outer;"),
        ("outer/mod.rs", "mod a; mod b;"),
        ("outer/a.rs", "use super::b::B; pub struct A;"),
        ("outer/b.rs", "use super::a::A; pub struct B;"),
    ]);
    assert_eq!(found.path, FilePath::new("crates/x/src/outer/a.rs"));
}

#[test]
fn a_root_and_its_modules_may_not_use_each_other() {
    let root = "mod part; pub struct Whole { part: part::Part }";
    circle(&[("lib.rs", root), ("part.rs", "use super::Whole; pub struct Part;")]);
    circle(&[("lib.rs", root), ("part.rs", "pub struct Part; impl crate::Whole {}")]);
    circle(&[("main.rs", root), ("part.rs", "pub struct Part; impl crate::Whole {}")]);
    clean(&[("lib.rs", "mod part; pub struct Whole;"), ("part.rs", "impl super::Whole {}")]);
    clean(&[("lib.rs", root), ("part.rs", "pub struct Part;")]);
}

#[test]
fn a_module_and_its_parts_are_one_unit_but_the_parts_have_an_order() {
    let root = ("lib.rs", "mod whole;");
    let whole = ("whole.rs", "mod a; mod b; pub struct Whole { a: a::A, b: b::B }");
    let b = ("whole/b.rs", "impl super::Whole {} pub struct B;");
    clean(&[root, whole, ("whole/a.rs", "use super::{Whole, b::B}; pub struct A;"), b]);
    let knotted = ("whole/b.rs", "use super::a::A; pub struct B;");
    circle(&[root, whole, ("whole/a.rs", "use super::{Whole, b::B}; pub struct A;"), knotted]);
}

#[test]
fn reexports_are_followed_and_use_nothing() {
    let root = "mod a; mod b; pub use a::A; pub(crate) use b::B;";
    clean(&[("lib.rs", root), ("a.rs", "use crate::B; pub struct A;"), ("b.rs", "pub struct B;")]);
    circle(&[
        ("lib.rs", root),
        ("a.rs", "use crate::B; pub struct A;"),
        ("b.rs", "use crate::A; pub struct B;"),
    ]);
    let uses_it_too = "mod a; pub use a::A; pub struct Root(A);";
    circle(&[("lib.rs", uses_it_too), ("a.rs", "use crate::Root; pub struct A;")]);
}

#[test]
fn globs_bring_what_is_named() {
    let root = "mod a; mod b; pub use a::*;";
    let a = ("a.rs", "use crate::b::*; pub struct A(B);");
    circle(&[("lib.rs", root), a, ("b.rs", "use super::*; pub struct B(A);")]);
    clean(&[("lib.rs", root), a, ("b.rs", "use super::*; pub struct B;")]);
}

#[test]
fn nested_trees_and_aliases_are_read() {
    circle(&[
        ("lib.rs", "mod a { pub mod deep { pub struct D; } use crate::b::B; } mod b;"),
        (
            "b.rs",
            "use std::{fmt, io::{self, Read}}; use crate::{a::{deep as low},};\n\
             fn f(_: low::D) {} pub struct B;",
        ),
    ]);
    circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use super::b::{B as Other, C}; pub struct A;"),
        ("b.rs", "fn f() { use crate::a as up; up::A; } pub struct B; pub struct C;"),
    ]);
}

#[test]
fn inline_modules_are_named_by_file_and_path() {
    let text = "mod m { mod a { use super::b::B; pub struct A; }\n\
                mod b { use super::a::A; pub struct B; } }";
    circle(&[("lib.rs", text)]);
    let allowed = "modules crates/x/src/lib.rs::m -- for now\n";
    assert!(findings_with(allowed, &[("lib.rs", text)]).is_empty());
}

#[test]
fn comments_literals_and_tests_do_not_count() {
    clean(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        (
            "b.rs",
            "//! See [`crate::a::A`].\n// use crate::a::A;\npub struct B(&'static str);\n\
             const X: B = B(\"crate::a::A\");\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n\
             #[cfg(all(test, loom))]\nuse crate::a::A;\n",
        ),
    ]);
}

#[test]
fn macros_belong_to_the_module_that_defines_them() {
    let root = "#[macro_use] mod macros; mod a;";
    let a = ("a.rs", "pub struct A; make!(B);");
    clean(&[("lib.rs", root), ("macros.rs", "macro_rules! make { ($x:ident) => {} }"), a]);
    let uses_back = "use crate::a::A; macro_rules! make { ($x:ident) => {} }";
    circle(&[("lib.rs", root), ("macros.rs", uses_back), a]);
    let by_dollar = "macro_rules! make { ($x:ident) => { $crate::a::A } }";
    clean(&[("lib.rs", root), ("macros.rs", by_dollar), a]);
}

#[test]
fn paths_of_modules_visibilities_and_other_crates_do_not_count() {
    clean(&[
        ("lib.rs", "mod a; mod tls; fn f() { a::g() }"),
        ("a.rs", "pub(in crate::a) fn g() {} use ::tls::X; use std::fmt; impl fmt::Debug for Y {}"),
        ("tls.rs", "pub(in crate::tls) struct T; fn f(x: u8) { x.method::<u8>(); Self::g() }"),
    ]);
}

#[test]
fn a_name_may_be_a_module_and_an_item() {
    circle(&[
        ("lib.rs", "mod wire; mod b; pub use wire::wire;"),
        ("wire.rs", "use crate::b::B; pub fn wire() {}"),
        ("b.rs", "use crate::wire; pub struct B; fn f() { wire() }"),
    ]);
}

#[test]
fn files_with_names_of_their_own_are_found() {
    circle(&[
        ("lib.rs", "#[path = \"other.rs\"]\nmod a;\nmod b;"),
        ("other.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
}

#[test]
fn programs_and_libraries_are_crates_of_their_own() {
    clean(&[
        ("lib.rs", "pub mod a;"),
        ("a.rs", "pub struct A;"),
        ("main.rs", "mod b; use x::a::A; struct Main; fn main() {}"),
        ("b.rs", "pub struct B(crate::Main);"),
        ("bin/tool.rs", "fn main() {}"),
    ]);
}

#[test]
fn an_exception_allows_one_folder_and_must_be_needed() {
    let knot = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ];
    let allowed = "modules crates/x/src/lib.rs -- older than the rule\n";
    assert!(findings_with(allowed, &knot).is_empty());
    let elsewhere = "modules crates/x/src/a.rs -- nothing is knotted there\n";
    let rules: Vec<_> = findings_with(elsewhere, &knot).iter().map(|found| found.rule).collect();
    assert_eq!(rules, [RULE, "allow-list"]);
    assert_eq!(findings_with(allowed, &knot[..2])[0].rule, "allow-list");
}

#[test]
fn broken_text_ends() {
    for text in ["use a::{b, {c", "mod", "mod a {", "use", "#[path = \"", "a::", "pub use self::x;"]
    {
        findings(&[("lib.rs", text)]);
    }
    clean(&[("lib.rs", "mod a; pub use a::X;"), ("a.rs", "pub use crate::X;")]);
}
