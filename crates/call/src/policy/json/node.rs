//! A JSON value that knows its path, for error messages.

use serde_json::Value;

use crate::policy::{ConfigError, Problem};

/// A value and its path from the root.
pub(super) struct Node<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Node<'a> {
        Node { value, path: String::new() }
    }

    /// Returns an error about this value.
    pub(super) fn wrong<T>(&self, problem: Problem) -> Result<T, ConfigError> {
        Err(ConfigError { path: self.path.clone(), problem })
    }

    /// A field of an object. `null` counts as absent, as in proto3's JSON mapping.
    pub(super) fn field(&self, name: &str) -> Option<Node<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Node { value, path: self.path_of(name) })
    }

    /// A required field.
    pub(super) fn require(&self, name: &str) -> Result<Node<'a>, ConfigError> {
        let missing = || ConfigError { path: self.path_of(name), problem: Problem::Missing };
        self.field(name).ok_or_else(missing)
    }

    /// Checks that this is an object.
    pub(super) fn object(&self) -> Result<(), ConfigError> {
        self.keys().map(drop)
    }

    pub(super) fn keys(&self) -> Result<Vec<&'a str>, ConfigError> {
        match self.value.as_object() {
            Some(fields) => Ok(fields.keys().map(String::as_str).collect()),
            None => self.kind("an object"),
        }
    }

    pub(super) fn elements(&self) -> Result<Vec<Node<'a>>, ConfigError> {
        let Some(values) = self.value.as_array() else { return self.kind("a list") };
        let element = |(index, value)| Node { value, path: format!("{}[{index}]", self.path) };
        Ok(values.iter().enumerate().map(element).collect())
    }

    pub(super) fn string(&self) -> Result<&'a str, ConfigError> {
        self.value.as_str().map_or_else(|| self.kind("a string"), Ok)
    }

    pub(super) fn boolean(&self) -> Result<bool, ConfigError> {
        self.value.as_bool().map_or_else(|| self.kind("true or false"), Ok)
    }

    /// A finite number.
    pub(super) fn number(&self) -> Result<f64, ConfigError> {
        match self.value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(number),
            None => self.kind("a number"),
        }
    }

    /// An integer. Proto3's JSON mapping also allows a string, and zero decimals.
    pub(super) fn u32(&self) -> Result<u32, ConfigError> {
        let number = match self.value {
            Value::Number(number) => number.as_f64(),
            Value::String(digits) => digits.parse::<u32>().ok().map(f64::from),
            _ => return self.kind("a whole number"),
        };
        let fits =
            |number: &f64| number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number);
        match number.filter(fits) {
            Some(number) => Ok(number as u32),
            None => self.wrong(Problem::Range("a whole number from 0 to 4294967295")),
        }
    }

    fn kind<T>(&self, expected: &'static str) -> Result<T, ConfigError> {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.wrong(Problem::Kind { expected, found })
    }

    fn path_of(&self, name: &str) -> String {
        let dot = if self.path.is_empty() { "" } else { "." };
        format!("{}{dot}{name}", self.path)
    }
}
