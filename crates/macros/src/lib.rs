//! `message!`: a message in one expression, checked when it is compiled.
//!
//! The macro knows no schema. It turns each field into a call of the setter that codegen has made
//! for it, with the field's own span, so that the compiler checks names and types and points at the
//! field that is wrong.
//!
//! Boundary rule: must not depend on any crate. It names nothing but methods of generated code.

mod fields;
mod output;
mod parse;

use proc_macro::TokenStream;

/// A message with its fields, in one expression of type `Msg<…>`:
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
/// A field that is not named keeps its default. `name` alone is `name: name`, as in a struct.
/// `tags: ..names` appends what an iterator gives, to a list or a map. A message that is there
/// already is copied: `place: &other.place`. At the end, `..message` begins with that message, an
/// owned one, instead of an empty one.
///
/// Braces after a field are always a message or a map, and a comma always ends a value. So a block
/// of code, a closure of two arguments or `f::<A, B>()` takes parentheses around it.
#[proc_macro]
pub fn message(input: TokenStream) -> TokenStream {
    match parse::message(input) {
        Ok(message) => output::expression(message),
        Err(error) => error.into_tokens(),
    }
}
