//! The parts of a message expression.

use proc_macro::{Ident, TokenStream};

/// `Type { field: value, …, ..base }`.
pub(crate) struct Message {
    /// The path of the message's type.
    pub(crate) path: TokenStream,
    pub(crate) fields: Vec<Field>,
    /// The message from which unset fields are copied.
    pub(crate) base: Option<TokenStream>,
}

pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) value: Value,
}

impl Field {
    /// The name as the generated methods have it.
    pub(crate) fn bare_name(&self) -> String {
        let name = self.name.to_string();
        name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
    }
}

pub(crate) enum Value {
    /// Any expression.
    Plain(TokenStream),
    /// `{ field: value, … }`
    Message(Vec<Field>),
    /// `[ … ]`
    List(Vec<Value>),
    /// `{ key => value, … }`
    Map(Vec<(TokenStream, Value)>),
    /// `..iterator`
    Spread(TokenStream),
}
