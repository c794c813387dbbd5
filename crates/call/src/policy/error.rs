//! What can be wrong with a service config.

/// A service config was refused: its author's fault, and no retry helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", at(path))]
pub struct ConfigError {
    /// Where, as in `methodConfig[2].retryPolicy.maxAttempts`; empty for the whole.
    pub path: String,
    /// What.
    pub problem: Problem,
}

/// What is wrong with a value of a service config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// A value of another kind was expected.
    #[error("expected {expected}, found {found}")]
    Kind {
        /// What was expected, as in "a string".
        expected: &'static str,
        /// What was found, as in "a number".
        found: &'static str,
    },
    /// A field that must be there is not.
    #[error("is missing")]
    Missing,
    /// A number or a duration is out of its range.
    #[error("must be {0}")]
    Range(&'static str),
    /// A list that must have members has none.
    #[error("must not be empty")]
    Empty,
    /// A string is no duration as in "1.5s".
    #[error("is no duration such as \"1.5s\"")]
    Duration,
    /// A string or number is not a status that a call can fail with.
    #[error("is not a status that a call can fail with")]
    Status,
    /// Both a retry policy and a hedging policy.
    #[error("has both a retryPolicy and a hedgingPolicy")]
    Both,
    /// A method without a service.
    #[error("names a method without a service")]
    MethodAlone,
    /// A method, a service or the default for all of them stands there twice.
    #[error("is configured twice")]
    Twice,
    /// No balancing policy that is known.
    #[error("names no known balancing policy")]
    Balance,
}

fn at(path: &str) -> String {
    if path.is_empty() { "service config ".to_owned() } else { format!("{path}: ") }
}
