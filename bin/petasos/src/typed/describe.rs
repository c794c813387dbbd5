//! `petasos describe`: prints declarations in the form of .proto files.

use clap::Args;
use petasos::Code;
use petasos::message::json_template;
use petasos_cli::failed::Failed;
use petasos_cli::output;
use petasos_schema::Schema;
use serde_json::json;

use super::schema::{Known, SchemaArgs, Told};
use super::server::ServerArgs;

/// The arguments of `petasos describe`.
#[derive(Args)]
pub struct DescribeArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// A service, method, message or enum by its full name; all services without it.
    #[arg(value_name = "SYMBOL")]
    symbol: Option<String>,
    #[command(flatten)]
    schema: SchemaArgs,
    /// Print a message as JSON to fill in.
    #[arg(long, requires = "symbol")]
    template: bool,
}

/// Prints the declarations.
pub fn run(args: &DescribeArgs) -> Result<(), Failed> {
    let Some(symbol) = &args.symbol else { return all(args) };
    let symbol = symbol.trim_start_matches('.').replace('/', ".");
    let known = Known::find(&args.schema, None, &args.server, &symbol)?;
    if args.template {
        let (id, _) = known.schema.message_by_name(&symbol).ok_or_else(|| {
            Failed::new(format!("`{symbol}` is no message")).with_advice("leave --template out")
        })?;
        return Ok(output::answer(json_template(&known.schema, id).as_bytes())?);
    }
    let found = Declaration::find(&known.schema, &symbol).ok_or_else(|| {
        let what = format!("the schema has no `{symbol}`");
        let advice = "give the full name of a service, method, message or enum";
        Failed::new(what).with_advice(advice).with_status(Code::NotFound)
    })?;
    print(&[found], args.server.json)
}

/// Prints all services.
fn all(args: &DescribeArgs) -> Result<(), Failed> {
    let (schema, names) = match args.schema.of_files()? {
        Some(schema) => {
            let names = schema.services().map(|(_, service)| service.full_name().to_owned());
            let names = names.collect();
            (schema, names)
        }
        None => {
            let mut told = Told::by(&args.server.connect()?)?;
            let names: Vec<String> = told.services.clone();
            let symbols: Vec<&str> = names.iter().map(String::as_str).collect();
            (told.schema(&symbols)?, names)
        }
    };
    let found = names.iter().filter_map(|name| Declaration::find(&schema, name));
    print(&found.collect::<Vec<_>>(), args.server.json)
}

/// A declaration that was found.
struct Declaration {
    name: String,
    kind: &'static str,
    text: String,
}

impl Declaration {
    fn find(schema: &Schema, name: &str) -> Option<Declaration> {
        let (kind, text) = if let Some((id, _)) = schema.service_by_name(name) {
            ("service", schema.service_text(id))
        } else if let Some((id, _)) = schema.message_by_name(name) {
            ("message", schema.message_text(id))
        } else if let Some((id, _)) = schema.enum_by_name(name) {
            ("enum", schema.enum_text(id))
        } else {
            let (service, method) = name.rsplit_once('.')?;
            let (id, _) = schema.service_by_name(service)?;
            ("method", schema.method_text(id, method)?)
        };
        Some(Declaration { name: name.to_owned(), kind, text })
    }
}

fn print(found: &[Declaration], json: bool) -> Result<(), Failed> {
    let mut out = String::new();
    for (at, Declaration { name, kind, text }) in found.iter().enumerate() {
        if json {
            out += &json!({ "name": name, "kind": kind, "text": text }).to_string();
            out.push('\n');
            continue;
        }
        let article = if *kind == "enum" { "an" } else { "a" };
        let gap = if at > 0 { "\n" } else { "" };
        out += &format!("{gap}{name} is {article} {kind}:\n{text}");
    }
    if out.is_empty() {
        return Ok(());
    }
    Ok(output::answer(out.as_bytes())?)
}
