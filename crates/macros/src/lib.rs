//! `message!`: a message as one expression, which is checked at compile time.
//!
//! The macro knows no schema. It turns each field into a call of the generated setter, with the
//! span of the field, so that the compiler checks names and types and its errors point at the wrong
//! field.
//!
//! Boundary rule: must not depend on any crate. It only uses methods of generated code.

mod fields;
mod output;
mod parse;

use proc_macro::TokenStream;

/// Builds a message with its fields, as one expression of type `Msg<…>`:
///
/// ```ignore
/// let note = message!(Note {
///     text: "water the plants",          // a scalar, string, bytes or enum
///     priority: 2,                       // optional ones are present then
///     place: { latitude: 51.5 },         // a message
///     tags: ["home", "today"],           // a list
///     seen_at: [{ latitude: 48.1 }, {}], // a list of messages
///     counters: { "seen" => 4 },         // a map
///     email: "me@example.org",           // a member of a oneof
/// });
/// ```
///
/// A field that is not set keeps its default; a single value is set once. `name` alone means
/// `name: name`, as in a struct. `tags: ..names` appends the items of an iterator to a list or a
/// map. An existing message is copied: `place: &other.place`. At the end, `..message` starts with
/// that owned message instead of an empty one.
///
/// Braces after a field always mean a message or a map, and a comma always ends a value. Therefore
/// a block of code, a closure with two arguments or `f::<A, B>()` needs parentheses around it.
#[proc_macro]
pub fn message(input: TokenStream) -> TokenStream {
    match parse::message(input) {
        Ok(message) => output::expression(message),
        Err(error) => error.into_tokens(),
    }
}
