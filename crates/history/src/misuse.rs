//! Histories that a model cannot judge.

use crate::history::{Call, Place};

/// A call that the model does not know, or that lacks what it needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Misuse {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub what: String,
}

impl Misuse {
    /// Another model's operation.
    pub(crate) fn of_operation(call: &Call, name: &str, model: &str) -> Misuse {
        Misuse { place: call.place, what: format!("the model `{model}` has no operation `{name}`") }
    }

    /// An answer without a field.
    pub(crate) fn of_answer(call: &Call, field: &str) -> Misuse {
        let what = format!("the answer to `{}` needs `{field}`", call.op.name());
        Misuse { place: call.end_place.unwrap_or(call.place), what }
    }

    /// An argument that the service would have refused.
    pub(crate) fn of_argument(call: &Call, what: &str) -> Misuse {
        Misuse { place: call.place, what: format!("`{}`: {what}", call.op.name()) }
    }
}
