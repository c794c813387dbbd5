//! The client's test cases.

mod compression;
mod load;
mod status;
mod stream;
mod unary;

use std::future::Future;
use std::pin::Pin;

use petasos::grpc::ClientConfig;
use petasos::{Channel, Code, Metadata, Request, Status};

use crate::service::TestServiceClient;
use crate::{ECHO_INITIAL, ECHO_TRAILING};

const INITIAL_VALUE: &str = "test_initial_metadata_value";
const TRAILING_VALUE: &[u8] = &[0xab, 0xab, 0xab];

/// The server to call.
#[derive(Clone, Debug)]
pub struct Target {
    /// `grpc://HOST:PORT`, or `grpcs://`.
    pub uri: String,
    /// Settings of connections.
    pub config: ClientConfig,
    /// The number of sequential calls in the cases that make many.
    pub soak_iterations: u32,
}

impl Target {
    async fn connect(&self) -> Outcome<Channel> {
        let channel = Channel::builder(&self.uri).grpc(self.config.clone()).connect().await;
        channel.map_err(|error| error.to_string())
    }

    async fn client(&self) -> Outcome<TestServiceClient> {
        Ok(TestServiceClient::new(self.connect().await?))
    }
}

/// The error is a description of what went wrong, for users.
type Outcome<T> = Result<T, String>;

type Run = for<'a> fn(&'a Target) -> Pin<Box<dyn Future<Output = Outcome<()>> + Send + 'a>>;

/// A test case.
pub struct Case {
    /// Its name in gRPC's descriptions.
    pub name: &'static str,
    run: Run,
}

macro_rules! cases {
    ($($module:ident::$name:ident,)*) => {
        &[$(Case { name: stringify!($name), run: |target| Box::pin($module::$name(target)) },)*]
    };
}

/// All cases.
pub const ALL: &[Case] = cases![
    unary::empty_unary,
    unary::large_unary,
    unary::concurrent_large_unary,
    unary::rpc_soak,
    unary::channel_soak,
    compression::client_compressed_unary,
    compression::server_compressed_unary,
    compression::client_compressed_streaming,
    compression::server_compressed_streaming,
    stream::client_streaming,
    stream::server_streaming,
    stream::ping_pong,
    stream::empty_stream,
    stream::cancel_after_begin,
    stream::cancel_after_first_response,
    stream::timeout_on_sleeping_server,
    status::custom_metadata,
    status::status_code_and_message,
    status::special_status_message,
    status::unimplemented_method,
    status::unimplemented_service,
    load::orca_per_rpc,
    load::orca_oob,
];

/// Finds a case by name.
///
/// # Errors
/// If there is none; the text lists the existing ones.
pub fn find(name: &str) -> Result<&'static Case, String> {
    ALL.iter().find(|case| case.name == name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|case| case.name).collect();
        format!("there is no case `{name}`; there are {}", names.join(", "))
    })
}

/// Runs a case.
///
/// # Errors
/// A description of what went wrong.
pub async fn run(case: &Case, target: &Target) -> Outcome<()> {
    (case.run)(target).await
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Outcome<()> {
    if holds { Ok(()) } else { Err(what()) }
}

fn equal<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Outcome<()> {
    check(found == expected, || format!("{found:?} instead of {expected:?}"))
}

/// Converts a call's failure to a failure of the case.
fn text(status: Status) -> String {
    status.to_string()
}

/// Checks that a call has failed with this code.
fn failed<T>(outcome: Result<T, Status>, code: Code) -> Outcome<Status> {
    match outcome {
        Ok(_) => Err(format!("the call went well instead of {code:?}")),
        Err(status) if status.code() == code => Ok(status),
        Err(status) => Err(format!("{status} instead of {code:?}")),
    }
}

/// The metadata that a server is to send back.
fn echoed() -> Metadata {
    let mut metadata = Metadata::new();
    metadata.append(ECHO_INITIAL, INITIAL_VALUE).expect("it can be metadata");
    metadata.append_bin(ECHO_TRAILING, TRAILING_VALUE).expect("it can be metadata");
    metadata
}

fn check_echo(initial: &Metadata, trailing: Option<&Metadata>) -> Outcome<()> {
    equal(initial.get(ECHO_INITIAL), Some(INITIAL_VALUE))?;
    equal(trailing.and_then(|trailing| trailing.get_bin(ECHO_TRAILING)), Some(TRAILING_VALUE))
}

/// A request with the metadata that a server is to send back.
fn with_echo<T: petasos::message::Message>(mut request: Request<T>) -> Request<T> {
    *request.metadata_mut() = echoed();
    request
}
