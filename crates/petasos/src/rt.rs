//! Items that generated code refers to. Programs use them only through that code.

pub use crate::caller::{ServiceClient, Unary};
pub use crate::channel::Channel;
pub use crate::handler::{Methods, Service};
pub use crate::stream::{Opening, Sender, Streaming, Upload};
pub use petasos_call::Status;
#[doc(inline)]
pub use petasos_rpc::descriptors::{Idempotency, MethodInfo, MethodKind, ServiceInfo, ServiceRef};
#[doc(inline)]
pub use petasos_rpc::request::{Request, Response};
