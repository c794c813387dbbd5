//! Errors in service configs.

/// An invalid service config: its author's fault, and a retry fails again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", at(path))]
pub struct ConfigError {
    /// The position, as in `methodConfig[2].retryPolicy.maxAttempts`; empty for the whole config.
    pub path: String,
    /// The error.
    pub problem: Problem,
}

/// An error in a value of a service config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// The value has the wrong type.
    #[error("expected {expected}, found {found}")]
    Kind {
        /// The expected type, as in "a string".
        expected: &'static str,
        /// The actual type, as in "a number".
        found: &'static str,
    },
    /// A required field is missing.
    #[error("is missing")]
    Missing,
    /// A number or a duration is out of range.
    #[error("must be {0}")]
    Range(&'static str),
    /// A list that must have members is empty.
    #[error("must not be empty")]
    Empty,
    /// A string is not a duration as in "1.5s".
    #[error("is no duration such as \"1.5s\"")]
    Duration,
    /// A string or number is not a status code that a call can fail with.
    #[error("is not a status that a call can fail with")]
    Status,
    /// There are both a retry policy and a hedging policy.
    #[error("has both a retryPolicy and a hedgingPolicy")]
    Both,
    /// There is a method without a service.
    #[error("names a method without a service")]
    MethodAlone,
    /// A method, a service or the default for all occurs twice.
    #[error("is configured twice")]
    Twice,
    /// None of the balancing policies is known.
    #[error("names no known balancing policy")]
    Balance,
}

fn at(path: &str) -> String {
    if path.is_empty() { "service config ".to_owned() } else { format!("{path}: ") }
}
