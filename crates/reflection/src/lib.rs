//! Server reflection with gRPC's protocol, in both of its versions, as ordinary services.
//!
//! ```
//! use petasos_reflection::Reflection;
//!
//! let (_, health) = petasos_health::service();
//! let mut reflection = Reflection::new();
//! reflection.describe(&health);
//! let (v1, v1alpha) = reflection.services();
//! # let _ = (v1, v1alpha);
//! // Serve both beside the services that they describe.
//! ```
//!
//! Generated code contains no descriptors. They are made from its schema (`petasos_schema::Files`),
//! so files are named after packages, and comments and unknown options are lost. A program that has
//! descriptors can pass them to [`Reflection::add_descriptors`].

mod answer;
pub mod client;
#[rustfmt::skip]
pub(crate) mod generated_v1;
#[rustfmt::skip]
pub(crate) mod generated_v1alpha;

use std::collections::BTreeSet;
use std::sync::Arc;

use petasos::Msg;
use petasos::Status;
use petasos_schema::{Files, Limits, LoadError, Schema};

use answer::{Answer, Inner, Question};
use petasos::rt::Service;
use petasos::{Sender, Streaming};

/// gRPC's current protocol.
pub mod v1 {
    pub use super::generated_v1::*;
}

/// gRPC's older protocol, for older clients.
pub mod v1alpha {
    pub use super::generated_v1alpha::*;
}

/// The services that a server describes.
#[derive(Clone, Debug, Default)]
pub struct Reflection {
    names: BTreeSet<String>,
    schemas: Vec<Schema>,
    /// Descriptors that the program has added.
    given: Files,
}

impl Reflection {
    /// A value that describes only the reflection services themselves.
    pub fn new() -> Reflection {
        let mut reflection = Reflection::default();
        reflection.describe(&v1::ServerReflectionServer::new(Described::default()));
        reflection.describe(&v1alpha::ServerReflectionServer::new(Described::default()));
        reflection
    }

    /// Adds a service.
    pub fn describe(&mut self, service: &impl Service) {
        let info = service.info();
        if self.names.insert(info.name().to_owned()) {
            self.schemas.push(info.module().schema().clone());
        }
    }

    /// Adds an encoded `google.protobuf.FileDescriptorSet`. Answers come from it first, with its
    /// file names, comments and options. It does not add services.
    ///
    /// # Errors
    /// The bytes are no such set.
    pub fn add_descriptors(&mut self, set: &[u8]) -> Result<(), LoadError> {
        self.given.add_set(set, &Limits::default())
    }

    /// The reflection services, one for each version.
    pub fn services(
        self,
    ) -> (v1::ServerReflectionServer<Described>, v1alpha::ServerReflectionServer<Described>) {
        let made = Files::of_schemas(&self.schemas);
        let described =
            Described { inner: Arc::new(Inner { names: self.names, files: [self.given, made] }) };
        let v1 = v1::ServerReflectionServer::new(described.clone());
        (v1, v1alpha::ServerReflectionServer::new(described))
    }
}

/// Implements the reflection services; see [`Reflection::services`].
#[derive(Clone, Debug, Default)]
pub struct Described {
    inner: Arc<Inner>,
}

/// Implements the service of one version. The messages of the versions differ only in their types.
macro_rules! serve {
    ($version:ident, $respond:ident) => {
        impl $version::ServerReflection for Described {
            async fn server_reflection_info(
                &self,
                mut requests: Streaming<$version::ServerReflectionRequest>,
                mut responses: Sender<$version::ServerReflectionResponse>,
            ) -> Result<(), Status> {
                while let Some(request) = requests.message().await? {
                    responses.send(self.inner.$respond(&request)).await?;
                }
                Ok(())
            }
        }

        impl Inner {
            fn $respond(
                &self,
                request: &$version::ServerReflectionRequest,
            ) -> Msg<$version::ServerReflectionResponse> {
                use $version::server_reflection_request::MessageRequest as Asked;
                let question = request.message_request().map(|asked| match asked {
                    Asked::FileByFilename(name) => Question::File(name),
                    Asked::FileContainingSymbol(name) => Question::Symbol(name),
                    Asked::FileContainingExtension(of) => {
                        Question::Extension(of.containing_type(), of.extension_number())
                    }
                    Asked::AllExtensionNumbersOfType(name) => Question::Extensions(name),
                    Asked::ListServices(_) => Question::Services,
                });
                let mut response = $version::ServerReflectionResponse::new();
                let mut edit = response.edit();
                edit.set_valid_host(request.host()).set_original_request(request);
                match self.answer(question) {
                    Answer::Files(files) => {
                        let mut answer = edit.file_descriptor_response_mut();
                        answer.file_descriptor_proto_mut().extend(files);
                    }
                    Answer::Extensions { of, numbers } => {
                        let mut answer = edit.all_extension_numbers_response_mut();
                        answer.set_base_type_name(of);
                        answer.extension_number_mut().extend(numbers);
                    }
                    Answer::Services(names) => {
                        let mut answer = edit.list_services_response_mut();
                        let mut list = answer.service_mut();
                        for name in names {
                            list.add().set_name(name);
                        }
                    }
                    Answer::Nothing(code, message) => {
                        let mut answer = edit.error_response_mut();
                        answer.set_error_code(code as i32).set_error_message(message);
                    }
                }
                response
            }
        }
    };
}

serve!(v1, respond_v1);
serve!(v1alpha, respond_v1alpha);
