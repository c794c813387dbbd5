//! Parts: what fields occupy in their messages' structs (M4).
//!
//! A part with a pointer computes its target's address from its own (M3). It takes the provenance
//! that chunks, adopted bytes and received buffers exposed when they were added to their owner. The
//! provenance cannot come from `&self`: a reference covers only the part's own bytes, and targets
//! are elsewhere.
//!
//! All `unsafe` here relies on one invariant (ADR 10): *a part that safe code can reach is in an
//! arena and was written by its setter, or is in memory that M26 has accepted for this very type
//! and that nobody writes.* Hence parts have no constructor, no `Clone` and no `Default`, and only
//! generated code gets a `&mut` to one, for one statement (M12). So setters are public but hidden:
//! the code that codegen prints calls them.
//!
//! Another invariant keeps edits apart (M14): in an arena, no two parts point to one object. Code
//! that copies a part's bytes ends the life of the original at once.

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
