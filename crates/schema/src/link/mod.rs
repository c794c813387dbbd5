//! Joins the descriptors of many files into one schema.

mod lower;
mod names;
mod places;
mod reach;

pub(crate) use lower::scalar;

use crate::descriptor;
use crate::error::LoadError;
use crate::hashing::CycleTooLarge;
use crate::limits::Limits;
use crate::schema::Schema;

/// What to make of a set of descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The files, named as an import would name them, whose declarations the schema is to have,
    /// with all that these refer to. Where one of them cannot be had, that is an error. `None`
    /// takes all services, and of the messages and enums of all files those that can be had.
    pub files: Option<Vec<String>>,
    /// Whether to keep the descriptors, for [`Schema::descriptors`].
    pub keep_descriptors: bool,
    /// What the input may cost.
    pub limits: Limits,
}

impl Schema {
    /// The schema that an encoded `google.protobuf.FileDescriptorSet` describes. The set must have
    /// the files that its files import, in any order; types are named in full, as compilers do.
    pub fn from_descriptors(set: &[u8], options: &Options) -> Result<Schema, LoadError> {
        let files = descriptor::read(set, &options.limits)?;
        let names = names::Names::collect(&files)?;
        let is_reached = reach::reached(&names, options.files.as_deref())?;
        let max = options.limits.cycle_steps_max;
        let schema = lower::lower(&names, &is_reached)?.finish(max);
        let too_large = |CycleTooLarge| LoadError::TooLarge { what: "steps for one cycle", max };
        let mut schema = schema.map_err(too_large)?;
        schema.descriptors = options.keep_descriptors.then(|| set.into());
        Ok(schema)
    }
}
