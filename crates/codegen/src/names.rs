//! Converts protobuf names to Rust names: case, keywords, and conflicts.
//!
//! If a conversion makes two names equal, an [`Allocator`] distinguishes them by trailing
//! underscores. The results cause none of rustc's style warnings.

use std::collections::HashSet;

/// Hands out each name once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocator {
    taken: HashSet<String>,
}

impl Allocator {
    /// An allocator that never returns `reserved`.
    pub(crate) fn without(reserved: &[&str]) -> Allocator {
        Allocator { taken: reserved.iter().map(|name| (*name).to_owned()).collect() }
    }

    /// `wanted`, with as many trailing underscores as needed.
    pub(crate) fn take(&mut self, wanted: String) -> String {
        self.take_all(wanted, |name| vec![name.to_owned()])
    }

    /// `wanted`, with as many trailing underscores as needed for all names that are `made` from it
    /// to be free. Takes these names.
    pub(crate) fn take_all(
        &mut self,
        wanted: String,
        made: impl Fn(&str) -> Vec<String>,
    ) -> String {
        let mut name = wanted;
        loop {
            let made = made(&name);
            if made.iter().all(|made| !self.taken.contains(made)) {
                self.taken.extend(made);
                return name;
            }
            name.push('_');
        }
    }

    /// Whether the name was handed out, or is reserved.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.taken.contains(name)
    }
}

/// The name of a field, oneof or module: `in_snake_case`, and no keyword.
pub(crate) fn snake(name: &str) -> String {
    unkeyword(base(name))
}

/// A name `in_snake_case` from which others are made with [`around`]. It may be a keyword.
pub(crate) fn base(name: &str) -> String {
    let words: Vec<String> = words(name).map(str::to_ascii_lowercase).collect();
    fit(words.join("_"), "_")
}

/// A name made from another: a verb before a field, a word after a field or type. Trailing
/// underscores, which make the name unique, stay at the end.
pub(crate) fn around(before: &str, base: &str, behind: &str) -> String {
    let core = base.trim_matches('_');
    let end = &base[base.trim_end_matches('_').len()..];
    format!("{before}{core}{behind}{end}")
}

/// The name of a type or variant: unchanged if possible, otherwise `InCamelCase`.
pub(crate) fn camel(name: &str) -> String {
    if name.starts_with(|first: char| first.is_ascii_uppercase()) && !name.contains('_') {
        return unkeyword(name.to_owned());
    }
    let mut camel = String::with_capacity(name.len());
    for word in name.split('_').filter(|word| !word.is_empty()) {
        camel.push(word.as_bytes()[0].to_ascii_uppercase().into());
        camel.push_str(&word[1..]);
    }
    unkeyword(fit(camel, "X"))
}

/// A variant's name, from a field's.
pub(crate) fn variant(name: &str) -> String {
    camel(&words(name).map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_"))
}

/// The name of a constant: `IN_CAPITALS`.
pub(crate) fn shout(name: &str) -> String {
    let is_loud = !name.contains(|letter: char| letter.is_ascii_lowercase());
    let words: Vec<String> = match is_loud {
        true => name.split('_').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        false => words(name).map(str::to_ascii_uppercase).collect(),
    };
    fit(words.join("_"), "_")
}

/// A link of rustdoc to a `kind` ("struct", "trait") of this name.
pub(crate) fn link(kind: &str, name: &str) -> String {
    match DERIVES.contains(&name) {
        true => format!("[`{kind}@{name}`]"),
        false => format!("[`{name}`]"),
    }
}

/// A [`link`], with the article before it.
pub(crate) fn link_to_one(kind: &str, name: &str) -> String {
    let article = if name.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
    format!("{article} {}", link(kind, name))
}

/// `name`, prefixed with `before` if no identifier can begin like `name`.
fn fit(name: String, before: &str) -> String {
    match name.bytes().next() {
        None => format!("{before}_"),
        Some(first) if first.is_ascii_digit() => format!("{before}{name}"),
        Some(_) => name,
    }
}

/// `name`, with an underscore behind it if it is a keyword.
pub(crate) fn unkeyword(name: String) -> String {
    match KEYWORDS.contains(&name.as_str()) {
        true => name + "_",
        false => name,
    }
}

/// The words of an identifier: split at underscores, and where capitals begin. A run of capitals is
/// one word, except for the last one, which begins the next word: `HTTPServer2` is `HTTP`,
/// `Server2`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').flat_map(humps).filter(|word| !word.is_empty())
}

fn humps(chunk: &str) -> Vec<&str> {
    let bytes = chunk.as_bytes();
    let begins = |at: &usize| {
        let upper = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_uppercase);
        let lower = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_lowercase);
        upper(*at) && (!upper(*at - 1) || lower(*at + 1))
    };
    let mut from = 0;
    let mut humps = Vec::new();
    for at in (1..bytes.len()).filter(begins) {
        humps.push(&chunk[from..at]);
        from = at;
    }
    humps.push(&chunk[from..]);
    humps
}

/// Strict and reserved keywords of all editions, without those that no conversion here makes.
const KEYWORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if",
    "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
    "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Macros of the prelude. A link to an item with such a name must say what kind of item it means.
const DERIVES: &[&str] =
    &["Clone", "Copy", "Debug", "Default", "Eq", "Hash", "Ord", "PartialEq", "PartialOrd"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_follow_the_words_of_a_name() {
        for (name, in_snake, in_camel, in_capitals) in [
            ("id", "id", "Id", "ID"),
            ("route_guide", "route_guide", "RouteGuide", "ROUTE_GUIDE"),
            ("RouteGuide", "route_guide", "RouteGuide", "ROUTE_GUIDE"),
            ("fooBar", "foo_bar", "FooBar", "FOO_BAR"),
            ("HTTPServer2", "http_server2", "HTTPServer2", "HTTP_SERVER2"),
            ("HTTP2_ON", "http2_on", "HTTP2ON", "HTTP2_ON"),
            ("x__y_", "x_y", "XY", "X_Y"),
            ("_1", "_1", "X1", "_1"),
            ("_", "__", "X_", "__"),
            ("type", "type_", "Type", "TYPE"),
            ("Self", "self_", "Self_", "SELF"),
            ("A1B", "a1_b", "A1B", "A1B"),
        ] {
            assert_eq!(snake(name), in_snake);
            assert_eq!(camel(name), in_camel);
            assert_eq!(shout(name), in_capitals);
        }
        assert_eq!(variant("FOO_bar"), "FooBar");
        assert_eq!(variant("self"), "Self_");
        assert_eq!(around("set_", &base("_1"), ""), "set_1");
        assert_eq!(around("", &base("type"), "_mut"), "type_mut");
        assert_eq!(around("", "x_mut_", "_mut"), "x_mut_mut_");
    }

    #[test]
    fn links_say_what_they_mean() {
        assert_eq!(link_to_one("struct", "Note"), "a [`Note`]");
        assert_eq!(link_to_one("trait", "Echo"), "an [`Echo`]");
        assert_eq!(link("struct", "Debug"), "[`struct@Debug`]");
    }

    #[test]
    fn a_name_is_handed_out_once_with_all_that_is_made_of_it() {
        let mut names = Allocator::without(&["new"]);
        assert_eq!(names.take("new".to_owned()), "new_");
        let accessors = |name: &str| vec![name.to_owned(), around("has_", name, "")];
        assert_eq!(names.take_all("x".to_owned(), accessors), "x");
        assert_eq!(names.take_all("has_x".to_owned(), accessors), "has_x_");
        assert!(names.has("has_has_x_") && !names.has("has_has_x"));
    }
}
