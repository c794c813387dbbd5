//! Why a hub does not do something for an application.

use petasos_engine::Application as Number;
use thiserror::Error;

use crate::schemas::BindError;

/// What the hub does not do for an application: its fault, or the operator's.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HubError {
    /// There is no application of this number.
    #[error("there is no application {}", .0.0)]
    NoApplication(Number),
    /// Another application serves under this name.
    #[error("`{0}` is served by another application")]
    NameTaken(String),
    /// The operator has this name for another host.
    #[error("`{0}` is served by another host")]
    Reserved(String),
    /// The application has as many targets or names as it may.
    #[error("the application has as many names, bindings, methods or schemas as it may")]
    TooMany,
    /// The application has bound the service already, of another schema: its fault.
    #[error("`{0}` is bound already, of another schema")]
    BoundOtherwise(String),
    /// A service was not bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A policy refuses a method.
    #[error(transparent)]
    Field(#[from] petasos_engine::FieldError),
}

/// Targets of one application; names under which it serves; its bindings.
pub(crate) const NAMES_MAX: usize = 1024;
