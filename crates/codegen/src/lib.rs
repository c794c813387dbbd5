//! Rust code from .proto files, for build scripts. No external compiler is needed.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     petasos_codegen::configure().include("proto").compile(&["proto/route_guide.proto"])?;
//!     Ok(())
//! }
//! ```
//!
//! Each package becomes a file in `OUT_DIR`, `package.name.rs`, or `_.rs` for files without a
//! package. Include it in a module of the program. If several packages refer to each other, their
//! modules must be nested like the packages; [`Builder::include_file`] writes them so.
//!
//! For a message `Note`, this generates (`docs/adr/0010-messages-on-heaps.md` has an example):
//! - `Note`, a `#[repr(C)]` struct with the layout that the schema defines, with a getter per
//!   field;
//! - `NoteMut`, a cursor that writes: `set_x`; `x_mut` for values that are edited in place;
//!   `clear_x` and `has_x` if the field has presence;
//! - `NoteMsg`, to which a `Msg<Note>` dereferences and which dereferences to a `Note`. It has the
//!   same setters, so that `note.set_x(…)` needs no `edit()`; each returns the cursor, for further
//!   changes. It has no method called `as_mut`, `borrow_mut` or `deref_mut`, since `Msg` implements
//!   traits with these; use the cursor for them;
//! - a module `note` with the items nested in it: messages, enums, and an enum per oneof.
//!
//! With [`Builder::owned`] there is also `OwnedNote`, a plain struct of `String`, `Vec`, `BTreeMap`
//! and `Option` for state that lives long, with `note::OwnedOrigin` for its `oneof origin`.
//! `OwnedNote::from(&note)` and `owned.to_message()` convert between the two.
//!
//! A `service Guide` becomes the trait `Guide` that handlers implement, `GuideServer` that serves
//! it, and `GuideClient` (`docs/adr/0011-typed-calls.md`).
//!
//! An enum becomes a number with constants: `LEVEL_LOW` of `enum Level` is `Level::LOW`. All names
//! get the form that Rust prefers. A name that is a keyword, or that an item with a smaller number
//! already has, gets an underscore at its end. A field with the name of a method of `Msg`, or of a
//! trait that it implements (`edit`, `clone`, `eq`), is read through the message itself:
//! `(*note).edit()`. The types of `google/protobuf/*.proto` are taken from
//! `petasos::message::well_known`, as far as they are there.
//!
//! Boundary rule: knows schemas and their layouts, and the names of the items that
//! `petasos-message` offers to generated code. It depends neither on that crate nor on any other
//! runtime crate.

mod build;
mod cursor;
mod docs;
mod enumeration;
mod error;
mod externs;
mod files;
mod member;
mod message;
mod names;
mod oneof;
mod owned;
mod owner;
mod package;
mod scope;
mod service;
mod text;

pub use build::{Builder, configure};
pub use error::Error;
