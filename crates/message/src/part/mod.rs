//! Parts: what fields occupy in their messages' structs (M4).
//!
//! A part that points computes its target's address from its own (M3) and takes the provenance that
//! chunks, adopted bytes and received buffers exposed when they joined their owner. It cannot come
//! from `&self`: a reference covers the part's own bytes, and targets lie elsewhere.
//!
//! All `unsafe` here rests on one invariant (ADR 10): *a part that safe code can reach lies in an
//! arena and was written by its setter, or lies in memory that M26 accepted for this very type and
//! that nobody writes.* Hence parts have no constructor, no `Clone` and no `Default`, and `&mut` to
//! one is lent to generated code only, for one statement (M12). Setters are therefore public, and
//! hidden: what calls them is the code that codegen prints.
//!
//! A further invariant keeps edits apart (M14): in an arena, no two parts point to one object. What
//! copies a part's bytes ends the life of the original at once.

mod array;
mod blob;
mod copy;
mod element;
mod link;
mod list;
mod list_mut;
mod map;
mod map_mut;
mod message;
mod oneof;
mod pointer;
mod presence;
mod shape;
mod text;

pub use blob::Blob;
pub use element::{Element, Key, Plain, Relocate, Scalar};
pub use link::{Link, Unknown};
pub use list::List;
pub use list_mut::ListMut;
pub use map::Map;
pub use map_mut::MapMut;
pub use message::Message;
pub use oneof::OneOf;
pub use presence::Presence;
pub use shape::{InPlace, Member, MessageType, Shape, Slot, ValueShape, shape_of, slots};
pub use text::Text;

pub(crate) use copy::{assign, assign_sharing};
pub(crate) use map::Entry;
pub(crate) use pointer::{Pointer, Span};
