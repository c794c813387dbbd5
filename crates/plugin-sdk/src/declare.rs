//! Declaring the fields that an engine needs.

use petasos_plugin_abi::{Failure, FieldKind};

use crate::service::Declaring;

/// A declared field of one method, in the engine that has declared it. It has no value in items of
/// other methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    pub(crate) number: u32,
    /// None if it was declared as of any.
    pub(crate) kind: Option<FieldKind>,
}

/// Lets an engine declare fields of a method, by their paths: names with dots between them.
pub struct Declare<'a>(&'a mut dyn Declaring);

impl<'a> Declare<'a> {
    pub(crate) fn new(service: &'a mut dyn Declaring) -> Declare<'a> {
        Declare(service)
    }

    /// The engine reads a field of this kind.
    ///
    /// # Errors
    /// [`Failure::Absent`]: the method has no such field, or one of another kind.
    /// [`Failure::Full`]: the engine has declared too many. [`Failure::Invalid`]: the path is too
    /// long.
    pub fn reads(&mut self, path: &str, kind: FieldKind) -> Result<Field, Failure> {
        self.declare(path, Some(kind), false)
    }

    /// The engine reads a field of whatever kind it is.
    ///
    /// # Errors
    /// As [`Declare::reads`].
    pub fn reads_any(&mut self, path: &str) -> Result<Field, Failure> {
        self.declare(path, None, false)
    }

    /// The engine reads and changes a field of this kind.
    ///
    /// # Errors
    /// As [`Declare::reads`].
    pub fn writes(&mut self, path: &str, kind: FieldKind) -> Result<Field, Failure> {
        self.declare(path, Some(kind), true)
    }

    fn declare(
        &mut self,
        path: &str,
        kind: Option<FieldKind>,
        writes: bool,
    ) -> Result<Field, Failure> {
        let number = self.0.declare_field(path, kind, writes)?;
        Ok(Field { number, kind })
    }
}
