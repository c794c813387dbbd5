//! How a control plane is reached: a client of `petasos.admin.v1.Admin`, or of
//! `petasos.router.v1.Router`, at its Unix socket.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use petasos::grpc::ClientConfig;
use petasos::message::Message;
use petasos::{Channel, Code, ConnectError, Msg, Request, Status, Unary, block_on};
use petasos_admin::router::RouterClient;
use petasos_admin::{
    AdminClient, ChangeRequest, DEFAULT_ROUTER_SOCKET, DEFAULT_SOCKET, RESPONSE_BYTES_MAX,
};

use crate::failed::Failed;
use crate::output;

/// Who has a control plane.
pub struct Served {
    /// Where it is, unless another path is given.
    socket: &'static str,
    program: &'static str,
    /// How to see what there is.
    look: &'static str,
}

/// The managed service.
pub const SERVICE: Served = Served {
    socket: DEFAULT_SOCKET,
    program: "petasosd",
    look: "`petasos ctl apps` and `datapath` show what there is",
};

/// A router.
pub const ROUTER: Served = Served {
    socket: DEFAULT_ROUTER_SOCKET,
    program: "petasos-router",
    look: "`petasos ctl router status` and `workers` show what there is",
};

/// The service, and how to call it.
#[derive(Args)]
pub struct ServiceArgs {
    /// The socket for operators [default: /run/petasos/admin.sock; a router's is
    /// /run/petasos-router/admin.sock].
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// The longest to wait for the service, in seconds.
    #[arg(long, global = true, value_name = "S", default_value_t = 15)]
    timeout: u64,
}

impl ServiceArgs {
    /// The same for the service at another socket.
    pub fn at(&self, socket: PathBuf) -> ServiceArgs {
        ServiceArgs { socket: Some(socket), json: self.json, timeout: self.timeout }
    }

    /// The longest to wait for the service.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout.max(1))
    }

    /// A client whose calls reach the service, and take so long at most.
    ///
    /// # Errors
    /// If nothing listens there, or this user may not connect.
    pub fn connect(&self, timeout: Option<Duration>) -> Result<AdminClient, Failed> {
        Ok(AdminClient::new(self.channel(&SERVICE, timeout)?))
    }

    /// A client of a router.
    ///
    /// # Errors
    /// If nothing listens there, or this user may not connect.
    pub fn connect_router(&self, timeout: Option<Duration>) -> Result<RouterClient, Failed> {
        Ok(RouterClient::new(self.channel(&ROUTER, timeout)?))
    }

    fn channel(&self, served: &Served, timeout: Option<Duration>) -> Result<Channel, Failed> {
        let socket = self.socket.clone().unwrap_or_else(|| PathBuf::from(served.socket));
        let absolute = std::path::absolute(&socket).unwrap_or_else(|_| socket.clone());
        let mut config = ClientConfig::default();
        config.receive_bytes_max = RESPONSE_BYTES_MAX;
        let channel = Channel::builder(&format!("grpc+unix://{}", absolute.display()))
            .grpc(config)
            .connect_timeout(self.patience());
        let channel = match timeout {
            Some(timeout) => channel.timeout(timeout),
            None => channel,
        };
        block_on(channel.connect()).map_err(|error| served.unconnected(&socket, &error))
    }

    /// Asks a router for something.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses.
    pub fn ask_router<Q: Message, R: Message>(
        &self,
        request: Msg<Q>,
        method: impl FnOnce(&RouterClient, Request<Q>) -> Unary<R>,
    ) -> Result<Msg<R>, Failed> {
        let client = self.connect_router(Some(self.patience()))?;
        let answer = block_on(method(&client, Request::new(request)));
        Ok(answer.map_err(|status| ROUTER.failed(&status))?.into_message())
    }

    /// Asks the service for something.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses.
    pub fn ask<Q: Message, R: Message>(
        &self,
        request: Msg<Q>,
        method: impl FnOnce(&AdminClient, Request<Q>) -> Unary<R>,
    ) -> Result<Msg<R>, Failed> {
        let client = self.connect(Some(self.patience()))?;
        let answer = block_on(method(&client, Request::new(request)));
        Ok(answer.map_err(|status| failed(&status))?.into_message())
    }

    /// Changes something, and prints what was done.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses: nothing has changed then.
    pub fn change(&self, request: Msg<ChangeRequest>) -> Result<(), Failed> {
        let response = self.ask(request, |client, request| client.change(request))?;
        let lines: Vec<&str> = response.done().iter().map(|line| &**line).collect();
        let text = match self.json {
            true => serde_json::json!({ "done": lines }).to_string(),
            false => lines.join("\n"),
        };
        Ok(output::answer(text.as_bytes())?)
    }
}

/// The failure of a call to the service.
pub fn failed(status: &Status) -> Failed {
    SERVICE.failed(status)
}

impl Served {
    fn unconnected(&self, socket: &Path, error: &ConnectError) -> Failed {
        let (socket, program) = (socket.display(), self.program);
        let why = match error {
            ConnectError::Unreachable(status) => status.message().to_owned(),
            error => error.to_string(),
        };
        let (what, advice, code) = match why {
            why if why.contains("No such file") || why.contains("Connection refused") => (
                format!("no service listens for operators at {socket}"),
                format!("start `{program}`, or say where it listens with --socket (its --admin)"),
                Code::Unavailable,
            ),
            why if why.contains("Permission denied") => (
                format!("the system does not let this user connect to {socket}"),
                "be root or the service's user, or have the service started with --viewer".into(),
                Code::PermissionDenied,
            ),
            why => (
                format!("cannot connect to {socket}: {why}"),
                format!("check that `{program}` has this socket for operators (its --admin)"),
                Code::Unavailable,
            ),
        };
        Failed::new(what).with_advice(advice).with_status(code)
    }

    /// The failure of a call.
    pub fn failed(&self, status: &Status) -> Failed {
        let failed = Failed::of_status(status);
        match status.code() {
            Code::PermissionDenied => failed.with_advice(
                "root and the service's user may change it; --viewer lets others look",
            ),
            Code::NotFound => failed.with_advice(self.look),
            Code::Unimplemented => {
                failed.with_advice(format!("is this the socket of a `{}`?", self.program))
            }
            Code::ResourceExhausted => failed.with_advice("try again later, or remove something"),
            Code::DeadlineExceeded => failed.with_advice(
                "`petasos ctl audit` shows whether it was done; allow more with --timeout",
            ),
            _ => failed,
        }
    }
}

/// How a command ends that uses the service.
pub fn ended(service: &ServiceArgs, result: Result<(), Failed>) -> ExitCode {
    let Err(failed) = result else { return ExitCode::SUCCESS };
    match service.json {
        true => output::note(&failed.to_json().to_string()),
        false => output::note(&format!("petasos: {failed}")),
    }
    ExitCode::from(failed.exit_code())
}
