//! Unknown records: kept as they arrived, including the tag (M10).

use super::Decoder;
use super::growth::Element;
use crate::DecodeError;
use crate::arena::Object;
use crate::protobuf::struct_at::StructAt;

/// Where a struct has its `Unknown` part (M5).
const UNKNOWN_OFFSET: u32 = 0;

/// The size of the `Blob` that an `Unknown` part points to.
const BLOB_BYTES: u32 = 16;

impl<'a> Decoder<'a, '_, '_> {
    /// Keeps the record that begins at `start`, and whose value at `at` is behind `tag`. Answers
    /// where it ends.
    #[cold]
    pub(super) fn unknown(
        &mut self,
        object: Object<'a>,
        start: usize,
        tag: u32,
        at: usize,
        end: usize,
    ) -> Result<usize, DecodeError> {
        let mut after = self.cursor(at);
        after.skip(tag, end, self.stack.left())?;
        if after.at > end {
            return Err(DecodeError::Truncated);
        }
        let record = &self.input[start..after.at];
        let blob = self.linked(StructAt::of(object), UNKNOWN_OFFSET, BLOB_BYTES)?;
        let blob = blob.sized(BLOB_BYTES);
        let (array, place) = self.append(blob, 0, record.len(), Element::number(1))?;
        array.copy(place, record);
        Ok(after.at)
    }
}
