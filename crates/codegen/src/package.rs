//! The parameters of a package's code, and the paths of its types.

use petasos_schema::{EnumId, Layouts, MessageId, Schema};

use crate::scope::{Scope, Scopes};

/// A package for which code is generated.
#[derive(Debug)]
pub(crate) struct Package<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) layouts: &'a Layouts,
    pub(crate) scopes: &'a Scopes,
    /// Its modules.
    pub(crate) modules: Vec<String>,
    /// The path of the messages' runtime.
    pub(crate) runtime: &'a str,
    /// The path of the services' runtime.
    pub(crate) calls: &'a str,
}

impl Package<'_> {
    /// The path of a message in the module `from`.
    pub(crate) fn message(&self, id: MessageId, from: &Scope) -> String {
        self.scopes.message(id).path(&self.modules, from)
    }

    /// The path of a message's cursor.
    pub(crate) fn cursor(&self, id: MessageId, from: &Scope) -> String {
        self.scopes.message(id).cursor_path(&self.modules, from)
    }

    /// The path of the type that a message's `Msg` dereferences to.
    pub(crate) fn owner(&self, id: MessageId, from: &Scope) -> String {
        self.scopes.message(id).owner_path(&self.modules, from)
    }

    /// The path of a message's plain struct.
    pub(crate) fn owned(&self, id: MessageId, from: &Scope) -> String {
        self.scopes.message(id).owned_path(&self.modules, from)
    }

    /// The path of an enum.
    pub(crate) fn enumeration(&self, id: EnumId, from: &Scope) -> String {
        self.scopes.enumeration(id).path(&self.modules, from)
    }
}
