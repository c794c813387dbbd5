//! Names of services and methods: which can be, and how long they may be.

use std::collections::BTreeSet;

/// The most services of a group.
pub const SERVICES_MAX: usize = 256;

/// The most bytes of the name of a service or of a method: what workers can be told (RT36).
pub const NAME_BYTES_MAX: usize = 255;

/// What is wrong with the configured names. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    /// There are none, or too many.
    #[error("a table has 1 to {SERVICES_MAX} services, and not {0}")]
    Count(usize),
    /// A name is not that of a service.
    #[error("`{0}` is not the full name of a service, such as `package.Service`")]
    NotAName(String),
    /// A name is too long.
    #[error("`{0}` has more than {NAME_BYTES_MAX} bytes")]
    TooLong(String),
    /// A name is there twice.
    #[error("`{0}` is named twice")]
    Twice(String),
}

/// A service of the table, as workers are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableService {
    /// Its full name.
    pub name: String,
    /// The number of its first method.
    pub first: u16,
    /// The names of its methods, which have numbers in this order.
    pub methods: Vec<String>,
}

pub(crate) fn of_service(name: &str, why: &str) -> String {
    format!("service `{name}`: {why}")
}

pub(crate) fn check_names(names: &[String]) -> Result<(), NamesError> {
    if !(1..=SERVICES_MAX).contains(&names.len()) {
        return Err(NamesError::Count(names.len()));
    }
    let mut seen = BTreeSet::new();
    for name in names {
        if !name.split('.').all(is_identifier) {
            return Err(NamesError::NotAName(name.clone()));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(NamesError::TooLong(name.clone()));
        }
        if !seen.insert(name) {
            return Err(NamesError::Twice(name.clone()));
        }
    }
    Ok(())
}

/// Whether it is an identifier of protobuf: no schema has a service of another name.
fn is_identifier(part: &str) -> bool {
    let is_first = |it: char| it.is_ascii_alphabetic() || it == '_';
    part.starts_with(is_first) && part.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}
