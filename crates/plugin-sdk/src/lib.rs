//! Policies of the managed service, in Rust, as plug-ins (ADR 19).
//!
//! A [`Policy`] and its [`Engine`] are plain Rust. [`export!`] makes a plug-in of them: a shared
//! object, or, with the target `wasm32-unknown-unknown`, a WebAssembly module. `templates/plugin`
//! is a project to start from, and the book's chapter about plug-ins a guide.
//!
//! ```
//! #![forbid(unsafe_code)]
//! use std::sync::Arc;
//!
//! use petasos_plugin_sdk::{Code, Engine, Item, ItemKind, Policy, Refusal, Status};
//!
//! /// Refuses requests that are longer than its configuration says.
//! struct Short(u32);
//!
//! impl Policy for Short {
//!     const NAME: &str = "short";
//!     const STATE_VERSION: u32 = 1;
//!     const INTERESTS: &[ItemKind] = &[ItemKind::Request];
//!     type Engine = ShortEngine;
//!
//!     fn new(configuration: &str, _: Option<&str>) -> Result<Short, Refusal> {
//!         let wrong = |_| Refusal::Configuration("it is to be a number".into());
//!         configuration.parse().map(Short).map_err(wrong)
//!     }
//!
//!     fn engine(self: &Arc<Short>, _: Option<&str>) -> Result<ShortEngine, Refusal> {
//!         Ok(ShortEngine(self.clone()))
//!     }
//! }
//!
//! struct ShortEngine(Arc<Short>);
//!
//! impl Engine for ShortEngine {
//!     fn item(&mut self, item: &mut Item<'_>) -> Result<(), Status> {
//!         match item.bytes() {
//!             bytes if bytes > self.0.0 => Err(Status::new(Code::OutOfRange, "it is too long")),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! petasos_plugin_sdk::export!(Short);
//! ```
//!
//! # What the two forms have in common, and what not
//!
//! A shared object's policy is shared by the engines of all applications. A module has an instance
//! for each engine, with a policy and an engine of its own: there, a policy has neither a state nor
//! a report, and [`Item::identity`] is never known.
//!
//! A panic in a shared object ends what it was doing: a call with `INTERNAL`, the making of a
//! policy with a refusal. The engine goes on, as the panic has left it. In a module a panic is a
//! trap: the module is cut off, and the rule of its policy applies.
//!
//! # Invariants
//!
//! - No panic, allocation or type of Rust crosses the boundary (`native`).
//! - What a plug-in borrows of the service, it cannot keep: it lives as long as the [`Item`], and
//!   until that is changed.
//!
//! `unsafe` is in `native` (the table's functions) and `module` (imports).
//!
//! Boundary rule: knows `petasos-plugin-abi` only; a plug-in links nothing else of the service.

mod declare;
mod item;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod module;
#[cfg(not(target_arch = "wasm32"))]
#[doc(hidden)]
pub mod native;
mod policy;
mod service;
pub mod testing;
mod value;

pub use declare::{Declare, Field};
pub use item::{Item, MethodId};
pub use petasos_plugin_abi::{
    Code, Fact, Failure, FieldKind, ItemKind, STATE_BYTES_MAX, TEXT_BYTES_MAX,
};
pub use policy::{Engine, Policy, Refusal, Status};
pub use value::Value;

/// Makes a plug-in of a [`Policy`]. A crate has one, and is a `cdylib`.
#[macro_export]
macro_rules! export {
    ($policy:ty) => {
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            // SAFETY: here and below: no other symbol of a plug-in has such a name.
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            pub static petasos_plugin: $crate::native::Table =
                $crate::native::Table::of::<$policy>();
        };
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::module::Module;

            ::std::thread_local! {
                static MODULE: Module<$policy> = const { Module::new() };
            }

            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn petasos_abi_version() -> u32 {
                $crate::module::ABI_VERSION
            }

            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn petasos_state_version() -> u32 {
                <$policy as $crate::Policy>::STATE_VERSION
            }

            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn petasos_interests() -> u32 {
                Module::<$policy>::INTERESTS
            }

            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn petasos_create() -> i32 {
                MODULE.with(Module::create)
            }

            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn petasos_method(number: u32) -> i32 {
                MODULE.with(|module| module.method(number))
            }

            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn petasos_item() -> u32 {
                MODULE.with(Module::item)
            }

            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn petasos_decompose() {
                MODULE.with(Module::decompose)
            }
        };
    };
}
