//! The schema that a build's generated code comes from, or that became known at run time.

use core::fmt;
use core::ops::Deref;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use petasos_schema::{Message, MessageId, Schema};

use crate::plan::Plans;

/// A schema in its compact form, which is read and made into plans on first use.
pub struct Module {
    compact: Cow<'static, [u8]>,
    loaded: OnceLock<(Schema, Plans)>,
}

impl Module {
    /// Of the bytes that `Schema::encode` gave.
    pub const fn new(compact: &'static [u8]) -> Module {
        Module { compact: Cow::Borrowed(compact), loaded: OnceLock::new() }
    }

    /// Of a schema that became known at run time: of the bytes that `Schema::encode` gave.
    pub const fn owned(compact: Vec<u8>) -> Module {
        Module { compact: Cow::Owned(compact), loaded: OnceLock::new() }
    }

    /// The schema in its compact form, without reading it.
    pub fn compact(&self) -> &[u8] {
        &self.compact
    }

    /// The schema.
    ///
    /// # Panics
    /// If the bytes are no schema: codegen or `Schema::encode` wrote them, so one of these is
    /// broken.
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
            let schema = Schema::decode(&self.compact, &Default::default());
            let schema = schema.expect("a module is made of a schema");
            let plans = Plans::of(&schema).expect("codegen refuses messages without a plan");
            (schema, plans)
        })
    }
}

/// A module that somebody keeps: of generated code, or one that is freed with its last reference.
#[derive(Clone)]
pub enum ModuleRef {
    /// Of generated code.
    Static(&'static Module),
    /// Made at run time.
    Owned(Arc<Module>),
}

impl Deref for ModuleRef {
    type Target = Module;

    fn deref(&self) -> &Module {
        match self {
            ModuleRef::Static(module) => module,
            ModuleRef::Owned(module) => module,
        }
    }
}

impl From<&'static Module> for ModuleRef {
    fn from(module: &'static Module) -> ModuleRef {
        ModuleRef::Static(module)
    }
}

impl From<Module> for ModuleRef {
    fn from(module: Module) -> ModuleRef {
        ModuleRef::Owned(Arc::new(module))
    }
}

impl fmt::Debug for ModuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModuleRef").field("bytes", &self.compact.len()).finish_non_exhaustive()
    }
}
