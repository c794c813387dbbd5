//! `petasos list`: prints the services of a server.

use clap::Args;
use petasos_cli::failed::Failed;
use petasos_schema::Schema;

use super::schema::{Known, SchemaArgs, Told};
use super::server::ServerArgs;
use super::table;

/// The arguments of `petasos list`.
#[derive(Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// List the methods of this service.
    #[arg(value_name = "SERVICE")]
    service: Option<String>,
    #[command(flatten)]
    schema: SchemaArgs,
}

/// Prints the names of services, or those of one service's methods.
pub fn run(args: &ListArgs) -> Result<(), Failed> {
    let lines = match &args.service {
        Some(service) => {
            let known = Known::find(&args.schema, None, &args.server, service)?;
            methods(&known.schema, service)?
        }
        None => match args.schema.of_files()? {
            Some(schema) => {
                schema.services().map(|(_, service)| service.full_name().to_owned()).collect()
            }
            None => Told::by(&args.server.connect()?)?.services,
        },
    };
    table::print(&lines, args.server.json)
}

fn methods(schema: &Schema, name: &str) -> Result<Vec<String>, Failed> {
    let service = schema.service_by_name(name);
    let (_, service) = service.ok_or_else(|| {
        Failed::new(format!("`{name}` is no service")).with_advice("`petasos describe` shows it")
    })?;
    Ok(service.methods().iter().map(|method| format!("{name}/{}", method.name())).collect())
}
