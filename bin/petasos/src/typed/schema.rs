//! Loading a schema from files, or from the server.

use std::path::{Path, PathBuf};

use clap::Args;
use petasos::message::{
    DecodeLimits, FromJson, Input, Plans, ToJson, json_to_protobuf, protobuf_to_json,
};
use petasos::{Channel, Code, Status, block_on};
use petasos_cli::failed::Failed;
use petasos_reflection::client::Conversation;
use petasos_schema::{Files, MessageId, Method, Options, Schema, compile};

use super::server::ServerArgs;

/// The options for schemas from files.
#[derive(Args)]
pub struct SchemaArgs {
    /// Take the schema from this .proto file instead of from the server; may be repeated.
    #[arg(long, value_name = "FILE")]
    proto: Vec<PathBuf>,
    /// Find .proto files and what they import in this folder; may be repeated.
    #[arg(short = 'I', long = "import-path", value_name = "DIR", requires = "proto")]
    import_path: Vec<PathBuf>,
    /// Take the schema from this encoded FileDescriptorSet.
    #[arg(long, value_name = "FILE", conflicts_with = "proto")]
    protoset: Option<PathBuf>,
}

impl SchemaArgs {
    /// Of .proto files, or of one encoded FileDescriptorSet.
    ///
    /// # Errors
    /// If it is both.
    pub fn of(files: &[PathBuf], import_path: &[PathBuf]) -> Result<SchemaArgs, Failed> {
        let is_proto = |file: &PathBuf| file.extension().is_some_and(|name| name == "proto");
        let import_path = import_path.to_vec();
        match files {
            files if files.iter().all(is_proto) => {
                Ok(SchemaArgs { proto: files.to_vec(), import_path, protoset: None })
            }
            [file] => Ok(SchemaArgs { proto: vec![], import_path, protoset: Some(file.clone()) }),
            _ => Err(Failed::new("several files are given, and not all are .proto files")
                .with_advice("give .proto files, or one FileDescriptorSet of them")),
        }
    }

    /// The schema from the files, if any are given.
    pub fn of_files(&self) -> Result<Option<Schema>, Failed> {
        let options = Options::default();
        if let Some(file) = &self.protoset {
            let set = std::fs::read(file).map_err(|error| unread(file, &error))?;
            let schema = Schema::from_descriptors(&set, &options);
            return schema.map(Some).map_err(|error| unread(file, &error));
        }
        if self.proto.is_empty() {
            return Ok(None);
        }
        let mut includes = self.import_path.clone();
        if includes.is_empty() {
            let folders = self.proto.iter().filter_map(|file| file.parent());
            includes.extend(folders.map(|folder| match folder.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => folder.to_owned(),
            }));
            includes.dedup();
        }
        let compiled = compile(&self.proto, &includes, &options);
        let compiled = compiled.map_err(|error| {
            let advice = "-I names the folders in which files and imports are found";
            Failed::new(error.to_string()).with_advice(advice)
        })?;
        Ok(Some(compiled.schema))
    }
}

fn unread(file: &Path, error: &dyn std::fmt::Display) -> Failed {
    Failed::new(format!("cannot read {}: {error}", file.display()))
        .with_advice("give a FileDescriptorSet, as `protoc --descriptor_set_out` writes it")
}

/// A server's services, from reflection.
pub struct Told {
    conversation: Conversation,
    /// Keeps the channel of the reflection stream alive.
    _channel: Channel,
    /// The full names of all services, sorted.
    pub services: Vec<String>,
}

impl Told {
    /// Asks the server for its services.
    pub fn by(channel: &Channel) -> Result<Told, Failed> {
        let (conversation, services) =
            block_on(Conversation::begin(channel)).map_err(|status| unreflected(&status))?;
        Ok(Told { conversation, _channel: channel.clone(), services })
    }

    /// The schema of the files that declare the symbols.
    pub fn schema(&mut self, symbols: &[&str]) -> Result<Schema, Failed> {
        let mut files = Files::default();
        for symbol in symbols {
            let collected = block_on(self.conversation.collect(symbol, &mut files));
            collected.map_err(|status| match status.code() {
                Code::NotFound => self.unknown(symbol),
                _ => unreflected(&status),
            })?;
        }
        Schema::from_descriptors(&files.to_set(), &Options::default()).map_err(|error| {
            Failed::new(format!("the server's schema cannot be used: {error}"))
                .with_advice("give --proto FILE with proto3 alone")
        })
    }

    fn unknown(&self, symbol: &str) -> Failed {
        let what = format!("the server knows no `{symbol}`");
        let services = self.services.join(", ");
        Failed::new(what).with_advice(format!("it offers {services}")).with_status(Code::NotFound)
    }
}

fn unreflected(status: &Status) -> Failed {
    match status.code() {
        Code::Unimplemented => Failed::new("the server does not tell its schema (reflection)")
            .with_advice("give --proto FILE, or of `petasos serve` the address of its --typed")
            .with_status(Code::Unimplemented),
        _ => Failed::of_status(status),
    }
}

/// A schema with message codecs.
#[derive(Debug)]
pub struct Known {
    pub schema: Schema,
    plans: Plans,
}

impl Known {
    /// The schema from files, or else the server's schema of a symbol.
    pub fn find(
        files: &SchemaArgs,
        channel: Option<&Channel>,
        server: &ServerArgs,
        symbol: &str,
    ) -> Result<Known, Failed> {
        let schema = match files.of_files()? {
            Some(schema) => schema,
            None => {
                let connected = match channel {
                    Some(channel) => channel.clone(),
                    None => server.connect()?,
                };
                Told::by(&connected)?.schema(&[symbol])?
            }
        };
        let plans = Plans::of(&schema).map_err(|error| Failed::new(error.to_string()))?;
        Ok(Known { schema, plans })
    }

    /// A method of a service.
    pub fn method(&self, service: &str, method: &str) -> Result<&Method, Failed> {
        let names = |what: String, names: Vec<&str>| {
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Failed::new(what)
                .with_advice(format!("there is: {has}"))
                .with_status(Code::Unimplemented))
        };
        let Some((_, known)) = self.schema.service_by_name(service) else {
            let all = self.schema.services().map(|(_, service)| service.full_name()).collect();
            return names(format!("the schema has no service `{service}`"), all);
        };
        match known.method_by_name(method) {
            Some(method) => Ok(method),
            None => {
                let all = known.methods().iter().map(Method::name).collect();
                names(format!("`{service}` has no method `{method}`"), all)
            }
        }
    }

    /// Encodes a message in protobuf's encoding.
    pub fn encode(&self, id: MessageId, text: &str) -> Result<Vec<u8>, Failed> {
        let limits = DecodeLimits::for_input(text.len());
        let how = FromJson::default();
        let image = json_to_protobuf(&self.schema, &self.plans, id, text, &limits, &how, 0);
        let image = image.map_err(|error| {
            let name = self.schema.message(id).full_name();
            Failed::new(format!("the request is no `{name}`: {error}"))
                .with_advice("--template prints one to fill in")
        })?;
        Ok(image.into_buf().as_slice().to_vec())
    }

    /// Formats a message as JSON.
    pub fn decode(&self, id: MessageId, bytes: &[u8], how: &ToJson) -> Result<String, Failed> {
        let limits = DecodeLimits::for_input(bytes.len());
        let input = Input::Borrowed(bytes);
        protobuf_to_json(&self.schema, &self.plans, id, input, &limits, how)
            .map_err(|error| Failed::new(format!("the response cannot be shown: {error}")))
    }

    /// Formats a message as JSON by the name of its type, if the schema has it.
    pub fn detail(&self, name: &str, bytes: &[u8]) -> Option<serde_json::Value> {
        let (id, _) = self.schema.message_by_name(name)?;
        let text = self.decode(id, bytes, &ToJson::default()).ok()?;
        serde_json::from_str(&text).ok()
    }
}
