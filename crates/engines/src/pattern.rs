//! Patterns of names: of methods, and of identities.

use petasos_engine::MethodId;
use serde::Deserialize;

/// A name of which the rest may be anything behind a `*` at its end: `pkg.Service/Method`,
/// `pkg.Service/*`, `pkg.*` or `*`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Pattern {
    start: String,
    has_rest: bool,
}

impl Pattern {
    /// Whether a name is meant. A slash before a method's name does not count.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name = name.strip_prefix('/').unwrap_or(name);
        if self.has_rest { name.starts_with(&self.start) } else { name == self.start }
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Pattern, String> {
        let text = text.strip_prefix('/').unwrap_or(&text);
        let (start, has_rest) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        if start.contains('*') || text.is_empty() {
            return Err(format!(
                "`{text}` must be a name, and may end in `*`, as in `pkg.Service/*`"
            ));
        }
        Ok(Pattern { start: start.to_owned(), has_rest })
    }
}

/// Which methods a rule is about: all, unless some are listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Pattern>")]
pub(crate) struct Methods(Vec<Pattern>);

impl Methods {
    /// Whether a method is among them.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name))
    }

    /// Which of some rules are about a method: their places in the list.
    pub(crate) fn about<'a>(rules: impl Iterator<Item = &'a Methods>, name: &str) -> Vec<usize> {
        rules.enumerate().filter(|(_, rule)| rule.matches(name)).map(|(at, _)| at).collect()
    }
}

impl Default for Methods {
    fn default() -> Methods {
        Methods(vec![Pattern { start: String::new(), has_rest: true }])
    }
}

impl TryFrom<Vec<Pattern>> for Methods {
    type Error = &'static str;

    fn try_from(patterns: Vec<Pattern>) -> Result<Methods, &'static str> {
        let reason = "`methods` must not be empty; leave it out for all of them";
        if patterns.is_empty() { Err(reason) } else { Ok(Methods(patterns)) }
    }
}

/// What an engine knows of each method of its datapath: few, in ascending order.
#[derive(Debug)]
pub(crate) struct ByMethod<T>(Vec<(MethodId, T)>);

impl<T> Default for ByMethod<T> {
    fn default() -> ByMethod<T> {
        ByMethod(Vec::new())
    }
}

impl<T> ByMethod<T> {
    pub(crate) fn insert(&mut self, method: MethodId, what: T) {
        match self.place(method) {
            Ok(at) => self.0[at].1 = what,
            Err(at) => self.0.insert(at, (method, what)),
        }
    }

    /// None for a method that the engine has not been told of.
    #[inline]
    pub(crate) fn get(&self, method: MethodId) -> Option<&T> {
        Some(&self.0[self.place(method).ok()?].1)
    }

    /// Where a method is, or where it would be.
    #[inline]
    fn place(&self, method: MethodId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&method, |(known, _)| *known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::try_from(pattern.to_owned()).unwrap().matches(name)
    }

    #[test]
    fn a_star_at_the_end_is_anything() {
        for (pattern, name) in
            [("*", "a.B/C"), ("a.B/*", "a.B/C"), ("a.*", "/a.B/C"), ("/a.B/C", "a.B/C")]
        {
            assert!(matches(pattern, name), "{pattern}");
        }
        for (pattern, name) in [("a.B/*", "a.BB/C"), ("a.B/C", "a.B/CC"), ("a.B", "a.B/C")] {
            assert!(!matches(pattern, name), "{pattern}");
        }
        for wrong in ["", "*.B", "a**", "/"] {
            let error = Pattern::try_from(wrong.to_owned()).unwrap_err();
            assert!(error.contains("pkg.Service/*"), "{error}");
        }
    }

    #[test]
    fn no_methods_are_an_error_and_none_listed_means_all() {
        assert!(Methods::try_from(Vec::new()).unwrap_err().contains("leave it out"));
        assert!(Methods::default().matches("a.B/C"));
    }
}
