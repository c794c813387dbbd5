//! Authentication with bearer tokens: a client's interceptor adds a token to each call, and a
//! server's interceptor checks it and tells handlers who the caller is. The service itself knows
//! nothing about tokens.
//!
//! Without TLS, tokens can be read on the network. A real server uses TLS on both ports
//! (`ServerBuilder::security`, `GrpcConfig::tls`), or takes names from certificates instead
//! (`CallInfo::peer`).

use std::collections::HashMap;

use petasos::grpc::GrpcConfig;
use petasos::intercept::{CallInfo, Interceptor, Step};
use petasos::{Request, Response, Sender, Server, StartError, Status};
use petasos_reflection::Reflection;

pub use vault::VaultClient;
use vault::{ReadRequest, Secret, Vault, VaultServer};

pub mod vault {
    //! What `protos/vault.proto` becomes.
    petasos::include_proto!("vault");
}

/// The metadata key of tokens, as in gRPC clients of all languages.
const AUTHORIZATION: &str = "authorization";

/// A client's interceptor: adds a token to each call.
pub struct Bearer {
    value: String,
}

impl Bearer {
    /// An interceptor that adds this token.
    pub fn new(token: &str) -> Bearer {
        Bearer { value: format!("Bearer {token}") }
    }
}

impl Interceptor for Bearer {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        match call.metadata_mut().append(AUTHORIZATION, &self.value) {
            Ok(()) => Step::Continue,
            Err(error) => Step::Refuse(Status::invalid_argument(error.to_string())),
        }
    }
}

/// The authenticated caller, which handlers find in their requests' extensions.
#[derive(Debug)]
pub struct Caller(pub String);

/// A server's interceptor: refuses every call whose token is not known.
pub struct Authenticate {
    /// Names by token.
    known: HashMap<String, String>,
}

impl Authenticate {
    /// An interceptor that knows these tokens, each with a name.
    pub fn new(known: &[(&str, &str)]) -> Authenticate {
        let owned = known.iter().map(|(token, name)| ((*token).to_owned(), (*name).to_owned()));
        Authenticate { known: owned.collect() }
    }

    /// The owner of this token. Real programs often have to ask another service for this.
    async fn look_up(&self, token: &str) -> Result<String, Status> {
        tokio::task::yield_now().await;
        let unknown = || Status::unauthenticated("the token is not known");
        self.known.get(token).cloned().ok_or_else(unknown)
    }
}

impl Interceptor for Authenticate {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        // Health checks need no token.
        if call.service() == "grpc.health.v1.Health" {
            return Step::Continue;
        }
        Step::wait(async move {
            let value = call.metadata().get(AUTHORIZATION).unwrap_or_default();
            let token = value.strip_prefix("Bearer ");
            let token = token.ok_or_else(|| Status::unauthenticated("a token is needed"))?;
            let name = self.look_up(token).await?;
            call.extensions_mut().insert(Caller(name));
            // The token was checked, so it is not passed on.
            call.metadata_mut().remove(AUTHORIZATION);
            Ok(())
        })
    }
}

struct Secrets;

fn secret(owner: &str, text: &str) -> petasos::Msg<Secret> {
    let mut secret = Secret::new();
    secret.set_owner(owner).set_text(text);
    secret
}

/// The caller's name. Without its interceptor, a handler refuses every call.
fn caller(request: &Request<ReadRequest>) -> Result<&str, Status> {
    let caller = request.extensions().get::<Caller>();
    let caller = caller.ok_or_else(|| Status::unauthenticated("nobody has said who calls"))?;
    Ok(&caller.0)
}

impl Vault for Secrets {
    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Secret>, Status> {
        Ok(Response::new(secret(caller(&request)?, "open sesame")))
    }

    async fn spell(
        &self,
        request: Request<ReadRequest>,
        mut out: Sender<Secret>,
    ) -> Result<(), Status> {
        let owner = caller(&request)?;
        for letter in ["o", "p", "e", "n"] {
            out.send(secret(owner, letter)).await?;
        }
        Ok(())
    }
}

/// A server on loopback that knows two callers, on both transports.
///
/// # Errors
/// As [`petasos::ServerBuilder::start`].
pub fn serve() -> Result<Server, StartError> {
    let vault = VaultServer::new(Secrets);
    let (_, health) = petasos_health::service();
    let mut reflection = Reflection::new();
    reflection.describe(&vault);
    reflection.describe(&health);
    let (v1, v1alpha) = reflection.services();
    Server::builder()
        .add(vault)
        .add(health)
        .add(v1)
        .add(v1alpha)
        .intercept(Authenticate::new(&[("t0ken-of-ada", "Ada"), ("t0ken-of-bob", "Bob")]))
        .listen("127.0.0.1:0")
        .grpc("127.0.0.1:0", GrpcConfig::default())
        .start()
}

/// The addresses at which clients reach a server, over datagrams and over gRPC.
pub fn targets(server: &Server) -> Vec<String> {
    let datagrams = server.local_address().map(|address| format!("petasos://{address}"));
    let grpc = server.grpc_address().map(|address| format!("grpc://{address}"));
    datagrams.into_iter().chain(grpc).collect()
}
