//! The schema that a build's generated code comes from.

use std::sync::OnceLock;

use petasos_schema::{Message, MessageId, Schema};

use crate::plan::Plans;

/// A schema in its compact form, which is read and made into plans on first use.
pub struct Module {
    compact: &'static [u8],
    loaded: OnceLock<(Schema, Plans)>,
}

impl Module {
    /// Of the bytes that `Schema::encode` gave.
    pub const fn new(compact: &'static [u8]) -> Module {
        Module { compact, loaded: OnceLock::new() }
    }

    /// The schema in its compact form, without reading it.
    pub const fn compact(&self) -> &'static [u8] {
        self.compact
    }

    /// The schema.
    ///
    /// # Panics
    /// If the bytes are no schema: codegen wrote them, so the build is broken.
    pub fn schema(&self) -> &Schema {
        &self.loaded().0
    }

    /// The plans of its messages.
    ///
    /// # Panics
    /// As [`Module::schema`].
    pub fn plans(&self) -> &Plans {
        &self.loaded().1
    }

    /// The message with an index, which is in its `MessageId`.
    pub(crate) fn message(&self, index: u32) -> (MessageId, &Message) {
        let message = self.schema().messages().nth(index as usize);
        message.expect("generated code names messages of its schema")
    }

    fn loaded(&self) -> &(Schema, Plans) {
        self.loaded.get_or_init(|| {
            let schema = Schema::decode(self.compact, &Default::default());
            let schema = schema.expect("generated code carries a schema");
            let plans = Plans::of(&schema).expect("codegen refuses messages without a plan");
            (schema, plans)
        })
    }
}
