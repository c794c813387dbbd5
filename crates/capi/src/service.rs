//! Services, described by names or descriptors, and the compiler of .proto files.

use std::ffi::c_char;

use petasos::Status;
use petasos::rt::MethodKind;
use petasos::untyped::{NameError, Service};
use petasos_schema::{Options, Schema, compile};

use crate::bytes::petasos_bytes;
use crate::failure::{PETASOS_OK, guarded, petasos_code};
use crate::pointer;

/// One request, one response.
pub const PETASOS_UNARY: u32 = 0;
/// Many requests, one response.
pub const PETASOS_CLIENT_STREAMING: u32 = 1;
/// One request, many responses.
pub const PETASOS_SERVER_STREAMING: u32 = 2;
/// Many requests and many responses.
pub const PETASOS_BIDIRECTIONAL: u32 = 3;

/// A method of a service that is described by names.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_method {
    /// The name without the service's, with a zero at its end.
    pub name: *const c_char,
    /// The kind: PETASOS_UNARY, …
    pub kind: u32,
}

/// A service and its methods. Any number of threads may use it.
#[derive(Debug)]
pub struct petasos_service(Service);

impl petasos_service {
    pub(crate) fn get(&self) -> Service {
        self.0.clone()
    }
}

/// A service with a full name (`package.Service`) and the names of its methods. This is enough for
/// calls. To serve callers with typed messages, and to go through the managed service of the host,
/// a service needs descriptors. Free it with petasos_service_free. Its description is freed with
/// the last service, channel, client and server that use it.
///
/// # Safety
/// Names end with zeros, `count` methods are at `methods`, and `service` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_service_named(
    name: *const c_char,
    methods: *const petasos_method,
    count: usize,
    service: *mut *mut petasos_service,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, name) = unsafe { (pointer::out(service)?, pointer::text(name, "the name")?) };
        if count > 0 && methods.is_null() {
            return Err(Status::invalid_argument("the methods must not be null"));
        }
        let mut known = Vec::new();
        for at in 0..count {
            // SAFETY: the caller's promises.
            let method = unsafe {
                let method = *methods.add(at);
                (pointer::text(method.name, "a method's name")?, kind(method.kind)?)
            };
            known.push(method);
        }
        *to = pointer::give(petasos_service(Service::named(name, &known).map_err(wrong)?));
        Ok(PETASOS_OK)
    })
}

/// A service from an encoded `google.protobuf.FileDescriptorSet`, with all its methods. Calls to
/// servers with an incompatible schema fail, and servers with this service publish its schema. Free
/// it with petasos_service_free.
///
/// # Safety
/// `length` bytes are at `descriptors`, the name ends with a zero, and `service` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_service_described(
    descriptors: *const u8,
    length: usize,
    name: *const c_char,
    service: *mut *mut petasos_service,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, set, name) = unsafe {
            (
                pointer::out(service)?,
                pointer::slice(descriptors, length)?,
                pointer::text(name, "the name")?,
            )
        };
        let schema = Schema::from_descriptors(set, &Options::default());
        let schema = schema.map_err(|error| Status::invalid_argument(error.to_string()))?;
        *to = pointer::give(petasos_service(Service::described(&schema, name).map_err(wrong)?));
        Ok(PETASOS_OK)
    })
}

/// Frees a service's handle; does nothing if it is null. Clients and servers made with it remain
/// usable.
///
/// # Safety
/// It is null, or belongs to the program and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_service_free(service: *mut petasos_service) {
    // SAFETY: the caller's promise.
    unsafe { pointer::free(service) }
}

/// Compiles .proto files to an encoded `google.protobuf.FileDescriptorSet` with all imports and
/// comments. Files and imports are searched in the directories `includes`, and the first match
/// wins. PETASOS_INVALID_ARGUMENT if there is an error in the files; the message has its position.
///
/// # Safety
/// `file_count` texts that end with zeros are at `files`, `includes` meets the same requirements,
/// and `descriptors` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_compile(
    files: *const *const c_char,
    file_count: usize,
    includes: *const *const c_char,
    include_count: usize,
    descriptors: *mut petasos_bytes,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, files, includes) = unsafe {
            (
                pointer::out(descriptors)?,
                pointer::texts(files, file_count, "a file's name")?,
                pointer::texts(includes, include_count, "a directory's name")?,
            )
        };
        let options = Options { keep_descriptors: true, ..Options::default() };
        let compiled = compile(files, includes, &options);
        let compiled = compiled.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let set = compiled.schema.descriptors().expect("they were to be kept");
        *to = petasos_bytes::new(set.to_vec());
        Ok(PETASOS_OK)
    })
}

fn kind(number: u32) -> Result<MethodKind, Status> {
    match number {
        PETASOS_UNARY => Ok(MethodKind::Unary),
        PETASOS_CLIENT_STREAMING => Ok(MethodKind::ClientStreaming),
        PETASOS_SERVER_STREAMING => Ok(MethodKind::ServerStreaming),
        PETASOS_BIDIRECTIONAL => Ok(MethodKind::Bidirectional),
        _ => Err(Status::invalid_argument(format!("{number} is no kind of methods"))),
    }
}

fn wrong(error: NameError) -> Status {
    match error {
        NameError::NoService(_) => Status::not_found(error.to_string()),
        NameError::TooMany => Status::resource_exhausted(error.to_string()),
        error => Status::invalid_argument(error.to_string()),
    }
}
