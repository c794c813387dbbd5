//! Types that another crate already has.

use crate::names::{camel, snake};

/// Rust paths of protobuf declarations for which no code is generated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Externs {
    /// Full names of packages or types, and their Rust paths.
    paths: Vec<(String, String)>,
}

impl Externs {
    /// Maps `proto`, a package or type with or without a leading dot, to the path `rust`.
    pub(crate) fn add(&mut self, proto: &str, rust: &str) {
        let proto = proto.trim_start_matches('.');
        self.paths.retain(|(known, _)| known != proto);
        self.paths.push((proto.to_owned(), rust.to_owned()));
    }

    /// Adds a mapping, unless the name is already mapped, even as part of a package.
    pub(crate) fn add_default(&mut self, proto: &str, rust: &str) {
        if self.longest(proto).is_none() {
            self.paths.push((proto.to_owned(), rust.to_owned()));
        }
    }

    /// The path of a declaration by its full name, if another crate has it.
    pub(crate) fn path(&self, name: &str) -> Option<String> {
        let (rest, rust) = self.longest(name)?;
        let Some((modules, last)) = rest.rsplit_once('.') else { return Some(rust.to_owned()) };
        let mut path = rust.to_owned();
        for module in modules.split('.').filter(|module| !module.is_empty()) {
            path.push_str("::");
            path.push_str(&snake(module));
        }
        Some(format!("{path}::{}", camel(last)))
    }

    /// The rest of the name after the longest mapped prefix, and that prefix's path.
    fn longest<'a>(&self, name: &'a str) -> Option<(&'a str, &str)> {
        let left = |known: &str| {
            let rest = name.strip_prefix(known)?;
            (rest.is_empty() || rest.starts_with('.')).then_some(rest)
        };
        let known = self.paths.iter().filter_map(|(known, rust)| Some((left(known)?, &**rust)));
        known.min_by_key(|(rest, _)| rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_decides() {
        let mut externs = Externs::default();
        externs.add(".a.b", "::x");
        externs.add("a.b.Outer", "::y::Other");
        externs.add_default("a.b.Late", "::z::Late");
        let path = |name| externs.path(name);
        assert_eq!(path("a.b.Note").as_deref(), Some("::x::Note"));
        assert_eq!(path("a.b.c.Note.Inner").as_deref(), Some("::x::c::note::Inner"));
        assert_eq!(path("a.b.Outer").as_deref(), Some("::y::Other"));
        assert_eq!(path("a.b.Late").as_deref(), Some("::x::Late"));
        assert_eq!(path("a.bc.Note"), None);
        assert_eq!(path("a"), None);
    }
}
