//! Sets of status codes.

use crate::Code;

/// A set of the 17 status codes, for policies.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CodeSet(u32);

impl CodeSet {
    /// The empty set.
    pub const EMPTY: CodeSet = CodeSet(0);

    /// This set plus `code`.
    #[must_use]
    pub const fn with(self, code: Code) -> CodeSet {
        CodeSet(self.0 | 1 << code as u32)
    }

    /// Whether `code` is in the set.
    pub const fn contains(self, code: Code) -> bool {
        self.0 >> code as u32 & 1 == 1
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Code> for CodeSet {
    fn from_iter<I: IntoIterator<Item = Code>>(codes: I) -> CodeSet {
        codes.into_iter().fold(CodeSet::EMPTY, CodeSet::with)
    }
}

impl core::fmt::Debug for CodeSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(Code::ALL.iter().filter(|&&code| self.contains(code))).finish()
    }
}
