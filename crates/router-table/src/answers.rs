//! What one worker has answered to the binds of a table's services.

use std::sync::Arc;

use petasos_call::{BindResponse, CodecSet, Hash, Status};

use crate::messages;

/// The most bytes of all schemas of one worker. What several services share counts once.
pub(crate) const SCHEMAS_BYTES_MAX: usize = 8 << 20;

/// A worker's schemas are too long together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker's schemas have more than {SCHEMAS_BYTES_MAX} bytes")]
pub struct SchemasTooLong;

/// Of one service.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) hash: Hash,
    pub(crate) methods: u16,
    /// The native layout of the worker (R2); 0: none.
    pub(crate) layout: u16,
    /// The codecs that it takes.
    pub(crate) codecs: CodecSet,
    /// In compact form. Services of one module share it.
    pub(crate) schema: Arc<[u8]>,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    list: Vec<Result<Answer, Status>>,
    bytes: usize,
}

impl Answers {
    /// None yet.
    pub fn new() -> Answers {
        Answers::default()
    }

    /// Adds the answer to a bind of the next service: a whole message, that was asked for by a
    /// caller without a schema.
    ///
    /// # Errors
    /// Nothing was added, since too much would be.
    pub fn push(&mut self, message: &[u8]) -> Result<(), SchemasTooLong> {
        let answer = match messages::read_answer(message) {
            Ok(BindResponse { hash, methods, layout, codecs, schema, .. }) => {
                let schema = self.shared(schema)?;
                Ok(Answer { hash, methods, layout, codecs, schema })
            }
            Err(status) => Err(status),
        };
        self.list.push(answer);
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Result<Answer, Status>> {
        self.list.iter()
    }

    /// The bytes of a schema: those of an earlier one, if they are the same.
    fn shared(&mut self, schema: &[u8]) -> Result<Arc<[u8]>, SchemasTooLong> {
        let mut before = self.list.iter().rev().flatten();
        if let Some(same) = before.find(|answer| *answer.schema == *schema) {
            return Ok(same.schema.clone());
        }
        let bytes = self.bytes + schema.len();
        if bytes > SCHEMAS_BYTES_MAX {
            return Err(SchemasTooLong);
        }
        self.bytes = bytes;
        Ok(schema.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(schema: &[u8]) -> Vec<u8> {
        let (layout, codecs, hash) = (0, CodecSet::IDENTITY, [1; 16]);
        messages::answer(Ok(BindResponse { layout, codecs, hash, first: 1, methods: 1, schema }))
    }

    #[test]
    fn rt31_the_schemas_of_one_worker_are_bounded_together_and_counted_once() {
        let (one, other) = (vec![1; SCHEMAS_BYTES_MAX / 2], vec![2; SCHEMAS_BYTES_MAX / 2]);
        let mut answers = Answers::new();
        for schema in [&one, &other, &one, &other] {
            answers.push(&message(schema)).unwrap();
        }
        assert_eq!(answers.push(&message(&[3])), Err(SchemasTooLong));
        assert_eq!(answers.len(), 4);
        // What is no schema costs nothing.
        answers.push(&[]).unwrap();
    }
}
