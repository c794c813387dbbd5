//! `petasos health`: whether a server, or one of its services, takes calls.

use clap::Args;
use petasos::{Code, Msg, Status, block_on};
use petasos_cli::failed::Failed;
use petasos_cli::output;
use petasos_health::{HealthCheckRequest, HealthClient, ServingStatus};
use serde_json::json;

use super::server::ServerArgs;

/// The arguments of `petasos health`.
#[derive(Args)]
pub struct HealthArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// A service by its full name; the server as a whole without it.
    #[arg(value_name = "SERVICE", default_value = "")]
    service: String,
    /// Print each change, until the call ends.
    #[arg(long)]
    watch: bool,
}

/// Prints the health status. "Not serving" is a failure.
pub fn run(args: &HealthArgs) -> Result<(), Failed> {
    let client = HealthClient::new(args.server.connect()?);
    if args.watch {
        return block_on(watch(args, &client));
    }
    let answer = block_on(client.check(request(args)));
    let status = answer.map_err(|status| failed(&status))?.status();
    print(args, status)?;
    match status {
        ServingStatus::SERVING => Ok(()),
        _ => Err(Failed::new("it takes no calls now").with_advice("try again later")),
    }
}

async fn watch(args: &HealthArgs, client: &HealthClient) -> Result<(), Failed> {
    let answers = client.watch(request(args)).await;
    let mut answers = answers.map_err(|status| failed(&status))?;
    while let Some(answer) = answers.message().await.map_err(|status| failed(&status))? {
        print(args, answer.status())?;
    }
    Ok(())
}

fn request(args: &HealthArgs) -> Msg<HealthCheckRequest> {
    let mut request = HealthCheckRequest::new();
    request.edit().set_service(&args.service);
    request
}

fn print(args: &HealthArgs, status: ServingStatus) -> Result<(), Failed> {
    let name = match status.name() {
        Some(name) => name.to_owned(),
        None => i32::from(status).to_string(),
    };
    let line = match args.server.json {
        true => json!({ "service": args.service, "status": name }).to_string(),
        false => name,
    };
    Ok(output::answer(line.as_bytes())?)
}

fn failed(status: &Status) -> Failed {
    let failed = Failed::of_status(status);
    match status.code() {
        Code::Unimplemented => failed.with_advice("the server offers no health checks"),
        _ => failed,
    }
}
