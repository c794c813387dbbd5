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
//! package, to be included in a module of the program. Where several packages refer to each other,
//! their modules must be nested as the packages are, and [`Builder::include_file`] writes them so.
//!
//! What is generated for a message `Note` (`docs/adr/0010-messages-on-heaps.md` has an example):
//! - `Note`, a `#[repr(C)]` struct laid out as the schema says, with a reader per field;
//! - `NoteMut`, the cursor that writes: `set_x`; `x_mut` for what is edited in place; `clear_x`
//!   beside `has_x` where there is presence;
//! - `NoteMsg`, to which a `Msg<Note>` dereferences and which dereferences to a `Note`: the same
//!   setters, so that `note.set_x(…)` needs no `edit()`. Each gives the cursor, for more.
//!   A method that would be called `as_mut`, `borrow_mut` or `deref_mut`, as one of a trait that
//!   `Msg` has, is left to the cursor;
//! - a module `note` with what is nested in it: messages, enums, and an enum per oneof.
//!
//! With [`Builder::owned`] there is also `OwnedNote`, a plain struct of `String`, `Vec`, `BTreeMap`
//! and `Option` for state that lives long, with `note::OwnedOrigin` for its `oneof origin`.
//! `OwnedNote::from(&note)` and `owned.to_message()` lead there and back.
//!
//! A `service Guide` becomes the trait `Guide` that handlers implement, `GuideServer` that serves
//! it, and `GuideClient` (`docs/adr/0011-typed-calls.md`).
//!
//! An enum becomes a number with constants: `LEVEL_LOW` of `enum Level` is `Level::LOW`. All names
//! take the form that Rust gives them; a name that is a keyword, or that something with a smaller
//! number has already, gets an underscore at its end. A field that is called like a method of `Msg`
//! or of a trait that it implements (`edit`, `clone`, `eq`) is read from the message itself:
//! `(*note).edit()`. The types of `google/protobuf/*.proto` are
//! taken from `petasos::message::well_known`, as far as they are there.
//!
//! Boundary rule: knows schemas and their layouts, and the names of what `petasos-message` offers
//! to generated code. Depends on neither that crate nor on anything else that runs.

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
