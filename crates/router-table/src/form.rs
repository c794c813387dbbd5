//! In which forms messages of a service travel: those that all of a group's workers take.

use petasos_call::{CodecSet, Hash};

use crate::answers::Answer;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// The native layout of all workers, if they have the very same schema, as nobody knows
    /// beforehand which one gets a request. 0: they exchange protobuf.
    pub(crate) layout: u16,
    /// The codecs that all of them take.
    pub(crate) codecs: CodecSet,
}

impl Form {
    /// That of a worker alone.
    pub(crate) fn of(answer: &Answer) -> Form {
        Form { layout: answer.layout, codecs: answer.codecs }
    }

    /// What is left of it with another worker, where the schema has this hash.
    pub(crate) fn with(self, hash: Hash, answer: &Answer) -> Form {
        let is_same = answer.hash == hash && answer.layout == self.layout;
        let codecs = CodecSet::from_bits(self.codecs.bits() & answer.codecs.bits());
        Form { layout: if is_same { self.layout } else { 0 }, codecs }
    }
}
