//! Names of kinds, which last as long as the process (`petasos_engine::Version` asks for that).
//!
//! Each different name is kept once, and there are at most [`NAMES_MAX`] of them, so that loading
//! plug-ins again and again does not fill memory.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use petasos_plugin_abi::{NAME_BYTES_MAX, is_name};
use thiserror::Error;

/// So many different names can be used in the lifetime of a process.
pub const NAMES_MAX: usize = 1024;

/// A name that cannot be used. The plug-in's fault, unless there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// It is empty, too long, or has other characters.
    #[error("a name has 1 to {NAME_BYTES_MAX} letters, digits, `_` and `-`")]
    Form,
    /// The process has used too many different ones.
    #[error("this process has used {NAMES_MAX} different names of plug-ins")]
    TooMany,
}

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The name, for as long as the process runs.
pub(crate) fn lasting(name: &str) -> Result<&'static str, NameError> {
    if !is_name(name) {
        return Err(NameError::Form);
    }
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    add(&mut names, name)
}

fn add(names: &mut BTreeSet<&'static str>, name: &str) -> Result<&'static str, NameError> {
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    if names.len() >= NAMES_MAX {
        return Err(NameError::TooMany);
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_there_are_not_too_many() {
        // They last as long as the process, and so does what holds them: nothing is lost.
        static OWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let mut names = OWN.lock().expect("no other test locks it");
        for number in 0..NAMES_MAX {
            let name = number.to_string();
            let first = add(&mut names, &name).expect("there is room");
            assert!(std::ptr::eq(first, add(&mut names, &name).expect("it is known")));
        }
        assert_eq!(add(&mut names, "another"), Err(NameError::TooMany));
        assert_eq!(add(&mut names, "7"), Ok("7"));
    }

    #[test]
    fn names_are_short_and_plain() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        for right in ["a", "Rate-limit_2", &longest] {
            assert_eq!(lasting(right), Ok(right));
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for wrong in ["", "a b", "a\n", "ä", "a.b", &long] {
            assert_eq!(lasting(wrong), Err(NameError::Form), "{wrong}");
        }
    }
}
