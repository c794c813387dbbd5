use super::*;

fn source(text: &str) -> Source {
    Source::new(Path::new("crates/x/src/lib.rs"), text)
}

fn code(text: &str) -> String {
    source(text).code.iter().collect()
}

#[test]
fn masks_keep_every_position() {
    let text = "let a = \"x{\\\"}\"; // é {\n/* a /* b */ } */ let b = r#\"{\"\n}\"#;\n";
    let source = source(text);
    assert_eq!(source.code.len(), text.chars().count());
    assert_eq!(source.comments.len(), text.chars().count());
    assert_eq!(source.code_lines().count(), source.comment_lines().count());
}

#[test]
fn comments_and_literals_leave_the_code() {
    assert_eq!(code("a // {\nb"), "a     \nb");
    assert_eq!(code("a /* { /* } */ { */ b"), format!("a{}b", " ".repeat(19)));
    assert_eq!(code(r#"f("{\"{")"#), r#"f("    ")"#);
    assert_eq!(code("b\"{\" c\"{\""), "b\" \" c\" \"");
    assert_eq!(code("r#\"{\"{\"# x"), "r#\"    # x");
    assert_eq!(code("'{' '\\'' b'{' '\\u{7b}'"), "' ' '  ' b' ' '      '");
}

#[test]
fn lifetimes_are_not_characters() {
    assert_eq!(code("fn f<'a>(x: &'a str) { '}' }"), "fn f<'a>(x: &'a str) { ' ' }");
}

#[test]
fn comments_are_found_apart_from_code() {
    let comments: Vec<_> = source("a // one\n\"// no\" /* two */").comment_lines().collect();
    assert_eq!(comments[0].1.trim(), "// one");
    assert_eq!(comments[1].1.trim(), "/* two */");
}

#[test]
fn functions_are_measured_from_fn_to_the_closing_brace() {
    let text = "/// Doc.\npub fn one(\n    a: [u8; 3],\n) {\n    \"}\";\n}\nfn two() {}\n";
    let functions = source(text).functions();
    assert_eq!(functions[0], Function { name: "one".into(), line: 2, lines: 5 });
    assert_eq!(functions[1], Function { name: "two".into(), line: 7, lines: 1 });
}

#[test]
fn declarations_and_pointer_types_are_not_functions() {
    assert!(source("trait T { fn f(&self) -> [u8; 2]; } type P = fn(u8);").functions().is_empty());
}

#[test]
fn nested_functions_are_measured_too() {
    let names: Vec<_> = source("fn outer() {\nfn inner() {\n}\n}")
        .functions()
        .into_iter()
        .map(|f| f.name)
        .collect();
    assert_eq!(names, ["outer", "inner"]);
}

#[test]
fn test_regions_are_the_items_under_cfg_test() {
    let source = source("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
    let tests: Vec<_> = (1..=6).filter(|line| source.is_test(*line)).collect();
    assert_eq!(tests, [2, 3, 4, 5]);
}

#[test]
fn test_files_are_tests_throughout() {
    for path in ["crates/x/tests/a.rs", "crates/x/src/a_tests.rs", "crates/sim/src/lib.rs"] {
        assert!(Source::new(Path::new(path), "fn a() {}").is_test(1), "{path}");
    }
    assert!(!source("fn a() {}").is_test(1));
}
