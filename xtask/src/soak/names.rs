//! Finds the functions of a source file that are randomised tests.

/// Marks of a property test that is written without the macro.
const RUNNERS: [&str; 2] = ["TestRunner::new(", "TestRunner::default("];

/// The names of functions in `proptest!` blocks, and of those that make their own runner.
pub fn randomised(source: &str) -> Vec<String> {
    let (mut names, mut function, mut block) = (Vec::new(), None, None);
    for line in source.lines() {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start();
        if block.is_some_and(|start| indent <= start && code.starts_with('}')) {
            block = None;
        }
        if code.starts_with("proptest! {") || code.starts_with("proptest::proptest! {") {
            block = Some(indent);
        }
        if let Some(name) = function_name(code) {
            if block.is_some() {
                names.push(name.to_owned());
            }
            function = Some(name);
        }
        if RUNNERS.iter().any(|runner| code.contains(runner)) {
            names.extend(function.map(str::to_owned));
        }
    }
    names
}

/// The name of the function that the line declares, if it declares one.
fn function_name(code: &str) -> Option<&str> {
    let rest = code.strip_prefix("pub ").unwrap_or(code).strip_prefix("fn ")?;
    let end = rest.find(['(', '<'])?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_found_and_other_tests_are_not() {
        let source = "
#[test]
fn plain() {}

mod inner {
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3))]

        #[test]
        fn any_bytes(bytes in any::<u8>()) {
            if true {
            }
        }

        #[test]
        fn more(
            x in 0..1,
        ) {}
    }

    fn helper() {}
}

pub fn with_a_runner<F: Factory>(factory: &F) {
    let mut runner = TestRunner::new(config);
}

#[test]
fn fixed() {
    let mut runner = TestRunner::deterministic();
}
";
        assert_eq!(randomised(source), ["any_bytes", "more", "with_a_runner"]);
    }
}
