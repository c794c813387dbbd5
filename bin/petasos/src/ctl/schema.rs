//! `petasos ctl schema`: the schemas that the service knows.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use petasos::{Code, Msg};
use petasos_admin as proto;
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use petasos_schema::{Digest, FORMAT_VERSION, Limits, Schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::show::print;
use crate::typed::SchemaArgs;

/// The schemas that the service knows, by digest.
#[derive(Args)]
pub struct SchemaCommand {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// List the schemas that are known, and the services that applications have bound. This is
    /// what is done without a command.
    List,
    /// Show the declarations of a schema.
    Show(ShowArgs),
    /// Make a schema known before an application binds it. It stays until it is evicted, or the
    /// service ends.
    Load(LoadArgs),
    /// Forget a schema that nobody has bound, also in the cache on disk.
    Evict {
        /// Its digest, or a beginning of it that no other has.
        digest: String,
    },
}

#[derive(Args)]
struct ShowArgs {
    /// Its digest, or a beginning of it that no other has.
    digest: String,
    /// Write it to this file instead, for `petasosd --prefetch` and `petasos ctl schema load`.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The files of a schema, on the command line or in a plan.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadArgs {
    /// The .proto files that the application is built from, all of them; or an encoded
    /// FileDescriptorSet of these; or what `show --output` has written.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Find .proto files and what they import in this folder; may be repeated.
    #[arg(short = 'I', long = "import-path", value_name = "DIR")]
    #[serde(default)]
    import_path: Vec<PathBuf>,
}

/// Shows or changes what is known.
pub fn run(service: &ServiceArgs, command: &SchemaCommand) -> Result<(), Failed> {
    let mut request = proto::ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    match &command.what {
        None | Some(What::List) => return list(service),
        Some(What::Show(args)) => return show(service, args),
        Some(What::Load(args)) => {
            steps.add().load_schema_mut().set_schema(read(args)?.as_slice());
        }
        Some(What::Evict { digest }) => {
            let digest = whole(service, digest)?;
            steps.add().evict_schema_mut().set_digest(digest);
        }
    }
    service.change(request)
}

fn asked(service: &ServiceArgs) -> Result<Msg<proto::ListSchemasResponse>, Failed> {
    let request = proto::ListSchemasRequest::new();
    service.ask(request, |client, request| client.list_schemas(request))
}

fn list(service: &ServiceArgs) -> Result<(), Failed> {
    let answer = asked(service)?;
    print(
        service,
        || list_json(&answer),
        || {
            let rows: Vec<_> = answer.schemas().iter().map(schema_row).collect();
            let head = ["SCHEMA", "BYTES", "MESSAGES", "SERVICES", "BINDINGS", "KEPT", "SERVICE"];
            let schemas = table(&head, &rows);
            let rows: Vec<_> = answer.bindings().iter().map(binding_row).collect();
            let bindings = table(&["NUMBER", "NAME", "SERVICE", "METHODS", "SCHEMA BYTES"], &rows);
            let (bytes, most) = (answer.bytes(), answer.bytes_max());
            format!("{schemas}\n{bindings}all schemas: {bytes} of {most} bytes\n")
        },
    )
}

fn schema_row(one: &proto::KnownSchema) -> Vec<String> {
    let digest = one.digest();
    vec![
        digest.get(..SHORT_DIGITS).unwrap_or(digest).to_owned(),
        one.bytes().to_string(),
        one.messages().to_string(),
        one.services().to_string(),
        one.bindings().to_string(),
        kept(one).to_owned(),
        one.first_service().to_owned(),
    ]
}

fn binding_row(one: &proto::Binding) -> Vec<String> {
    vec![
        one.number().to_string(),
        one.name().to_owned(),
        one.service().to_owned(),
        one.methods().to_string(),
        one.schema_bytes().to_string(),
    ]
}

/// Why a schema is known.
fn kept(one: &proto::KnownSchema) -> &'static str {
    match (one.is_loaded(), one.bindings()) {
        (true, _) => "loaded",
        (false, 0) => "spare",
        (false, _) => "bound",
    }
}

fn list_json(answer: &proto::ListSchemasResponse) -> Value {
    let bindings = answer.bindings().iter().map(|one| {
        json!({
            "number": one.number(), "name": one.name(), "service": one.service(),
            "methods": one.methods(), "schema_bytes": one.schema_bytes(),
        })
    });
    let schemas = answer.schemas().iter().map(|one| {
        json!({
            "digest": one.digest(), "bytes": one.bytes(), "messages": one.messages(),
            "services": one.services(), "first_service": one.first_service(),
            "bindings": one.bindings(), "kept": kept(one),
        })
    });
    json!({
        "schemas": schemas.collect::<Vec<_>>(), "bindings": bindings.collect::<Vec<_>>(),
        "bytes": answer.bytes(), "bytes_max": answer.bytes_max(),
    })
}

/// So many digits tell schemas apart for people.
const SHORT_DIGITS: usize = 12;
const DIGITS: usize = 64;

/// The whole digest of which this is the beginning.
pub fn whole(service: &ServiceArgs, digest: &str) -> Result<String, Failed> {
    if digest.len() >= DIGITS {
        return Ok(digest.to_owned());
    }
    let answer = asked(service)?;
    let meant = answer.schemas().iter().map(|one| one.digest());
    let meant: Vec<_> = meant.filter(|one| one.starts_with(digest)).collect();
    match meant[..] {
        [one] => Ok(one.to_owned()),
        [] => Err(Failed::new(format!("no schema that is known begins with `{digest}`"))
            .with_advice("`petasos ctl schema` lists them; give a whole digest for one on disk")
            .with_status(Code::NotFound)),
        _ => Err(Failed::new(format!("{} schemas begin with `{digest}`", meant.len()))
            .with_advice("give more digits")
            .with_status(Code::InvalidArgument)),
    }
}

fn show(service: &ServiceArgs, args: &ShowArgs) -> Result<(), Failed> {
    let digest = whole(service, &args.digest)?;
    let mut request = proto::GetSchemaRequest::new();
    request.edit().set_digest(digest);
    let answer = service.ask(request, |client, request| client.get_schema(request))?;
    let bytes = answer.schema();
    let schema = Schema::decode(bytes, &Limits::default());
    let schema = schema.map_err(|error| Failed::new(format!("the service sent {error}")))?;
    if let Some(path) = &args.output {
        return std::fs::write(path, bytes).map_err(|error| {
            Failed::new(format!("cannot write {}: {error}", path.display()))
                .with_advice("name a file in a folder that exists")
        });
    }
    let digest = Digest::of(bytes);
    let json = || {
        let services = schema.services().map(|(_, service)| {
            let methods: Vec<_> = service.methods().iter().map(|method| method.name()).collect();
            json!({ "name": service.full_name(), "methods": methods })
        });
        let messages = schema.messages().map(|(_, message)| message.full_name());
        json!({
            "digest": digest.to_string(), "bytes": bytes.len(),
            "services": services.collect::<Vec<_>>(), "messages": messages.collect::<Vec<_>>(),
            "text": text(&schema),
        })
    };
    print(service, json, || format!("// {digest}\n{}", text(&schema)))
}

/// All declarations.
fn text(schema: &Schema) -> String {
    let is_top = |full: &str, package: &str| {
        let name = full.strip_prefix(package).unwrap_or(full);
        !name.trim_start_matches('.').contains('.')
    };
    let services = schema.services().map(|(id, _)| schema.service_text(id));
    let messages = schema.messages().filter(|(_, one)| is_top(one.full_name(), one.package()));
    let messages = messages.map(|(id, _)| schema.message_text(id));
    let enums = schema.enums().filter(|(_, one)| is_top(one.full_name(), one.package()));
    let enums = enums.map(|(id, _)| schema.enum_text(id));
    services.chain(messages).chain(enums).collect::<Vec<_>>().join("\n")
}

/// The schema in files, in its compact form.
pub fn read(args: &LoadArgs) -> Result<Vec<u8>, Failed> {
    if let [file] = &args.files[..]
        && let Some(schema) = compact(file)
    {
        return Ok(schema);
    }
    let schema = SchemaArgs::of(&args.files, &args.import_path)?.of_files()?;
    Ok(schema.ok_or_else(|| Failed::new("no file is named"))?.encode())
}

/// What a file has, if that is a schema in its compact form.
fn compact(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let is_compact = bytes.first() == Some(&FORMAT_VERSION);
    let schema = Schema::decode(&bytes, &Limits::default()).ok().filter(|_| is_compact)?;
    Some(schema.encode())
}
