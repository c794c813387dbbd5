//! `petasos call`: calls any method, with requests and responses as JSON.

use std::sync::Arc;
use std::sync::mpsc::channel;

use clap::Args;
use petasos::grpc::base64;
use petasos::message::{ToJson, json_template};
use petasos::rt::MethodKind;
use petasos::untyped::{Client, NoSuchMethod, Payload, Service};
use petasos::{Metadata, Msg, Request, Sender, Status, Streaming, block_on};
use petasos_cli::failed::Failed;
use petasos_cli::output;
use petasos_schema::{MessageId, Method};

use super::data::Data;
use super::schema::{Known, SchemaArgs};
use super::server::ServerArgs;

/// The arguments of `petasos call`.
#[derive(Args)]
pub struct CallArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// The method, as package.Service/Method.
    #[arg(value_name = "METHOD", value_parser = path)]
    method: (String, String),
    /// The request as JSON; several, one after the other, for a stream. `@` or `-` reads them from
    /// standard input, and sends each as soon as it is there.
    #[arg(value_name = "JSON", conflicts_with = "data")]
    request: Option<String>,
    /// The same as JSON.
    #[arg(short, long, value_name = "JSON", allow_hyphen_values = true)]
    data: Option<String>,
    #[command(flatten)]
    schema: SchemaArgs,
    /// Print a request to fill in, and call nothing.
    #[arg(long)]
    template: bool,
    /// Print fields that have their default values, too.
    #[arg(long)]
    defaults: bool,
    /// Print the server's metadata, too.
    #[arg(short, long)]
    verbose: bool,
}

pub fn path(text: &str) -> Result<(String, String), String> {
    let parts = text.rsplit_once('/').filter(|(service, method)| {
        !service.is_empty() && !method.is_empty() && !service.contains('/')
    });
    let (service, method) = parts.ok_or(
        "give it as package.Service/Method; echo, put and get of `petasos serve` are called with \
         `petasos raw`",
    )?;
    Ok((service.to_owned(), method.to_owned()))
}

/// Makes the call, and prints the results.
pub fn run(args: &CallArgs) -> Result<(), Failed> {
    let (service, method) = &args.method;
    if !args.template {
        return call(args, service, method);
    }
    let known = Known::find(&args.schema, None, &args.server, service)?;
    let input = known.method(service, method)?.input();
    Ok(output::answer(json_template(&known.schema, input).as_bytes())?)
}

fn call(args: &CallArgs, service: &str, method: &str) -> Result<(), Failed> {
    let channel = args.server.connect()?;
    let known = Known::find(&args.schema, Some(&channel), &args.server, service)?;
    let known = Arc::new(known);
    let found = known.method(service, method)?;
    let described = Service::described(&known.schema, service);
    let described = described.map_err(|error| Failed::new(error.to_string()))?;
    let client = Client::new(&channel, described);
    let call = Call { args, known: &known, method: found, client: &client };
    let data = Data::of(args.data.as_deref().or(args.request.as_deref()));
    let kind = client.method(method).map(|method| method.kind);
    match kind {
        Some(MethodKind::ClientStreaming) => block_on(call.client_streaming(data)),
        Some(MethodKind::Bidirectional) => call.bidirectional(data),
        Some(MethodKind::ServerStreaming) => block_on(call.server_streaming(data)),
        _ => block_on(call.unary(data)),
    }
}

/// A call under way.
struct Call<'a> {
    args: &'a CallArgs,
    known: &'a Arc<Known>,
    method: &'a Method,
    client: &'a Client,
}

impl Call<'_> {
    async fn unary(&self, data: Data) -> Result<(), Failed> {
        let request = self.only(data)?;
        let call = self.client.unary(self.method.name(), request).map_err(misused)?;
        let response = call.await.map_err(|status| self.failed(&status))?;
        self.show("metadata", response.metadata());
        self.print(&response)?;
        self.show("trailers", response.trailers());
        Ok(())
    }

    async fn server_streaming(&self, data: Data) -> Result<(), Failed> {
        let request = self.only(data)?;
        let call = self.client.server_streaming(self.method.name(), request).map_err(misused)?;
        let responses = call.await.map_err(|status| self.failed(&status))?;
        self.print_all(responses).await
    }

    async fn client_streaming(&self, data: Data) -> Result<(), Failed> {
        let mut call = self.client.client_streaming(self.method.name()).map_err(misused)?;
        for text in data.texts() {
            // If the server has ended the call, `finish` returns the reason.
            if call.send(encoded(self.known, self.method.input(), text)?).await.is_err() {
                break;
            }
        }
        let response = call.finish().await.map_err(|status| self.failed(&status))?;
        self.show("metadata", response.metadata());
        self.print(&response)?;
        self.show("trailers", response.trailers());
        Ok(())
    }

    /// Another thread sends the requests, so that neither direction waits for the other. When the
    /// call is over, that thread is not joined: it may be waiting for input.
    fn bidirectional(&self, data: Data) -> Result<(), Failed> {
        let call = self.client.bidirectional(self.method.name()).map_err(misused)?;
        let (mut requests, responses) = block_on(call).map_err(|status| self.failed(&status))?;
        let (known, input) = (self.known.clone(), self.method.input());
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let sent = send_all(&known, input, &mut requests, data);
            // Report a sending error before the end of the call is visible.
            let _ = tell.send(sent);
        });
        block_on(self.print_all(responses))?;
        told.try_recv().unwrap_or(Ok(()))
    }

    /// The only request; empty if none is given.
    fn only(&self, data: Data) -> Result<Request<Payload>, Failed> {
        let mut texts = data.texts();
        let text = texts.next().unwrap_or_else(|| Ok("{}".to_owned()));
        let request = encoded(self.known, self.method.input(), text)?;
        match texts.next() {
            None => Ok(Request::new(request)),
            Some(_) => Err(Failed::new("the method takes one request, and more are given")
                .with_advice("give one JSON object")),
        }
    }

    async fn print_all(&self, mut responses: Streaming<Payload>) -> Result<(), Failed> {
        if self.args.verbose {
            let head = responses.head().await.map_err(|status| self.failed(&status))?.clone();
            self.show("metadata", &head);
        }
        while let Some(response) =
            responses.message().await.map_err(|status| self.failed(&status))?
        {
            self.print(&response)?;
        }
        if let Some(trailers) = responses.trailers() {
            self.show("trailers", trailers);
        }
        Ok(())
    }

    fn print(&self, response: &Payload) -> Result<(), Failed> {
        let bytes = response.to_bytes().map_err(|status| self.failed(&status))?;
        let how = ToJson { defaults: self.args.defaults, ..ToJson::default() };
        let text = self.known.decode(self.method.output(), &bytes, &how)?;
        Ok(output::answer(text.as_bytes())?)
    }

    fn show(&self, what: &str, metadata: &Metadata) {
        for (key, value) in metadata.iter().filter(|_| self.args.verbose) {
            let value = match key.ends_with("-bin") {
                true => base64::encode(value),
                false => String::from_utf8_lossy(value).into_owned(),
            };
            output::note(&format!("{what}: {key}: {value}"));
        }
    }

    fn failed(&self, status: &Status) -> Failed {
        self.show("trailers", status.metadata());
        Failed::with_details(status, |name, value| self.known.detail(name, value))
    }
}

fn encoded(
    known: &Known,
    input: MessageId,
    text: Result<String, Failed>,
) -> Result<Msg<Payload>, Failed> {
    let bytes = known.encode(input, &text?)?;
    Payload::from_bytes(&bytes).map_err(|status| Failed::of_status(&status))
}

/// Sends requests until there are no more, or the server accepts none. The end of the responses
/// then has the reason.
fn send_all(
    known: &Known,
    input: MessageId,
    requests: &mut Sender<Payload>,
    data: Data,
) -> Result<(), Failed> {
    for text in data.texts() {
        let request = encoded(known, input, text)?;
        if block_on(requests.send(request)).is_err() {
            break;
        }
    }
    Ok(())
}

fn misused(error: NoSuchMethod) -> Failed {
    Failed::new(error.to_string())
}
