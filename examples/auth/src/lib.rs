//! Authentication with bearer tokens: a client's interceptor adds one to each call, a server's
//! checks it and hands handlers who the caller is. The service knows nothing of tokens.
//!
//! Tokens are no secret on the way without TLS; a real server has it on both ports
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

/// The key of tokens among metadata, as gRPC's clients of all languages have it.
const AUTHORIZATION: &str = "authorization";

/// A client's: adds a token to each call.
pub struct Bearer {
    value: String,
}

impl Bearer {
    /// With this token.
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

/// Who has proved to call: what handlers find in their requests' extensions.
#[derive(Debug)]
pub struct Caller(pub String);

/// A server's: lets nobody through whose token is not known.
pub struct Authenticate {
    /// Names by token.
    known: HashMap<String, String>,
}

impl Authenticate {
    /// Knows these tokens, each with a name.
    pub fn new(known: &[(&str, &str)]) -> Authenticate {
        let owned = known.iter().map(|(token, name)| ((*token).to_owned(), (*name).to_owned()));
        Authenticate { known: owned.collect() }
    }

    /// Who has this token. Often somebody else is asked for that, and waited for.
    async fn look_up(&self, token: &str) -> Result<String, Status> {
        tokio::task::yield_now().await;
        let unknown = || Status::unauthenticated("the token is not known");
        self.known.get(token).cloned().ok_or_else(unknown)
    }
}

impl Interceptor for Authenticate {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        // Those who look after the server need no token.
        if call.service() == "grpc.health.v1.Health" {
            return Step::Continue;
        }
        Step::wait(async move {
            let value = call.metadata().get(AUTHORIZATION).unwrap_or_default();
            let token = value.strip_prefix("Bearer ");
            let token = token.ok_or_else(|| Status::unauthenticated("a token is needed"))?;
            let name = self.look_up(token).await?;
            call.extensions_mut().insert(Caller(name));
            // What has been checked goes no farther.
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

/// Who calls. A handler without its interceptor lets nobody in.
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

/// Where clients reach a server, over datagrams and over gRPC.
pub fn targets(server: &Server) -> Vec<String> {
    let datagrams = server.local_address().map(|address| format!("petasos://{address}"));
    let grpc = server.grpc_address().map(|address| format!("grpc://{address}"));
    datagrams.into_iter().chain(grpc).collect()
}
