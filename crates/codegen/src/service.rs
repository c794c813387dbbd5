//! A service: the trait that handlers implement, the type that serves it, the client.
//!
//! `docs/adr/0011-typed-calls.md` has an example. Methods are in the schema's order, that of their
//! names, because their places in it are their numbers in a binding (R1).

use petasos_schema::{Method, Service, ServiceId};

use crate::docs;
use crate::names::{Allocator, base, link_to_one, unkeyword};
use crate::package::Package;
use crate::scope::{Scope, ServiceNames};
use crate::text::{Head, Text};

/// Writes all that belongs to a service.
pub(crate) fn write(package: &Package<'_>, scope: &Scope, id: ServiceId, text: &mut Text) {
    let service = package.schema.service(id);
    let names = &scope.services[&id];
    let mut taken = Allocator::without(&["new"]);
    let calls = service.methods().iter().enumerate();
    let calls = calls.map(|(index, method)| Call {
        method,
        index,
        name: taken.take(unkeyword(base(method.name()))),
        shape: Shape::of(method),
        input: package.message(method.input(), scope),
        output: package.message(method.output(), scope),
    });
    let code = Code { package, scope, service, names, calls: calls.collect() };
    code.write_trait(text);
    text.blank();
    code.write_info(id, text);
    text.blank();
    code.write_server(text);
    text.blank();
    code.write_client(text);
}

struct Code<'a> {
    package: &'a Package<'a>,
    scope: &'a Scope,
    service: &'a Service,
    names: &'a ServiceNames,
    calls: Vec<Call<'a>>,
}

/// A method.
struct Call<'a> {
    method: &'a Method,
    index: usize,
    name: String,
    shape: Shape,
    input: String,
    output: String,
}

/// Which sides of a call are streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Unary,
    ClientStreaming,
    ServerStreaming,
    Bidirectional,
}

impl Shape {
    fn of(method: &Method) -> Shape {
        match (method.client_streaming(), method.server_streaming()) {
            (false, false) => Shape::Unary,
            (true, false) => Shape::ClientStreaming,
            (false, true) => Shape::ServerStreaming,
            (true, true) => Shape::Bidirectional,
        }
    }

    /// The functions of the runtime that serve and call such a method.
    fn function(self) -> &'static str {
        match self {
            Shape::Unary => "unary",
            Shape::ClientStreaming => "client_streaming",
            Shape::ServerStreaming => "server_streaming",
            Shape::Bidirectional => "bidirectional",
        }
    }

    /// What a handler is called with.
    fn arguments(self) -> &'static str {
        match self {
            Shape::Unary => "request",
            Shape::ClientStreaming => "requests",
            Shape::ServerStreaming => "request, responses",
            Shape::Bidirectional => "requests, responses",
        }
    }
}

impl Code<'_> {
    fn write_trait(&self, text: &mut Text) {
        let mut comment = docs::lines(self.service.comment());
        if comment.is_empty() {
            comment = vec![format!("`service {}`", self.service.full_name())];
        }
        text.doc(&[&comment]);
        let (send, sync) = (self.marker("Send"), self.marker("Sync"));
        let head = format!("pub trait {}: {send} + {sync} + 'static {{", self.names.name);
        if self.calls.is_empty() {
            return text.line(format!("{head}}}"));
        }
        text.open(head);
        for (at, call) in self.calls.iter().enumerate() {
            if at > 0 {
                text.blank();
            }
            self.doc(call, text);
            text.signature(&self.handler(call));
        }
        text.close("}");
    }

    /// The signature of a handler, to be implemented as an `async fn`.
    fn handler(&self, call: &Call<'_>) -> Head {
        let (input, output) = (&call.input, &call.output);
        let request = format!("request: calls::Request<{input}>");
        let requests = format!("requests: calls::Streaming<{input}>");
        let responses = format!("responses: calls::Sender<{output}>");
        let response = format!("calls::Response<{output}>");
        let (arguments, value) = match call.shape {
            Shape::Unary => (vec![request], response),
            Shape::ClientStreaming => (vec![requests], response),
            Shape::ServerStreaming => (vec![request, responses], "()".to_owned()),
            Shape::Bidirectional => (vec![requests, responses], "()".to_owned()),
        };
        let result = self.scope.prelude("Result", "::core::result::Result");
        let output = format!("{result}<{value}, calls::Status>");
        let future = imported(self.scope, "Future");
        Head {
            name: call.name.clone(),
            arguments: std::iter::once("&self".to_owned()).chain(arguments).collect(),
            result: format!("impl {future}<Output = {output}> + {}", self.marker("Send")),
        }
    }

    /// What both ends tell of the service when they bind it.
    fn write_info(&self, id: ServiceId, text: &mut Text) {
        text.open(format!(
            "static {}: calls::ServiceInfo = calls::ServiceInfo {{",
            self.names.info
        ));
        text.line("module: &SCHEMA,");
        text.line(format!("index: {},", id.index()));
        text.line(format!("name: {:?},", self.service.full_name()));
        let bytes = self.service.hash().to_bytes().map(|byte| format!("{byte:#04x}"));
        text.open("hash: [");
        text.words(&bytes, ",");
        text.close("],");
        // As rustfmt does it: one alone needs no lines for its list.
        match self.calls.as_slice() {
            [] => text.line("methods: &[],"),
            [only] => {
                text.open("methods: &[calls::MethodInfo {");
                write_method_info(only, text);
                text.close("}],");
            }
            calls => {
                text.open("methods: &[");
                for call in calls {
                    text.open("calls::MethodInfo {");
                    write_method_info(call, text);
                    text.close("},");
                }
                text.close("],");
            }
        }
        text.close("};");
    }

    fn write_server(&self, text: &mut Text) {
        let ServiceNames { name, server, .. } = self.names;
        let arc = imported(self.scope, "Arc");
        let own = self.parameter();
        text.line(format!("/// Serves {}.", link_to_one("trait", name)));
        text.line(format!("pub struct {server}<{own}>({arc}<{own}>);"));
        text.blank();
        text.open(format!("impl<{own}: {name}> {server}<{own}> {{"));
        text.line("/// Serves what `service` does.");
        let arguments = vec![format!("service: {own}")];
        let head = Head { name: "new".to_owned(), arguments, result: "Self".to_owned() };
        text.function(&head, &[format!("Self({arc}::new(service))")]);
        text.close("}");
        text.blank();
        self.write_methods(text);
    }

    /// The parameter for the handlers' type: a trait of its name could not be named.
    fn parameter(&self) -> &'static str {
        if self.names.name == "T" { "H" } else { "T" }
    }

    /// Tells a server how each method is served.
    fn write_methods(&self, text: &mut Text) {
        let ServiceNames { name, server, info, .. } = self.names;
        let own = self.parameter();
        text.open(format!("impl<{own}: {name}> calls::Service for {server}<{own}> {{"));
        text.open("fn info(&self) -> calls::ServiceRef {");
        text.line(format!("calls::ServiceRef::of(&{info})"));
        text.close("}");
        text.blank();
        if self.calls.is_empty() {
            text.line("fn methods(self, _: &mut calls::Methods) {}");
        } else {
            text.open("fn methods(self, methods: &mut calls::Methods) {");
            self.calls.iter().for_each(|call| self.write_method(call, text));
            text.close("}");
        }
        text.close("}");
    }

    fn write_method(&self, call: &Call<'_>, text: &mut Text) {
        let Call { index, name: method, shape, .. } = call;
        let (function, arguments) = (shape.function(), shape.arguments());
        let (own, arc) = (self.parameter(), imported(self.scope, "Arc"));
        let closure = format!("|service: {arc}<{own}>, {arguments}| async move {{");
        let line = format!("methods.{function}({index}, &self.0, {closure}");
        let is_short = text.fits(&format!("{line});"), 0);
        if is_short {
            text.open(line);
        } else {
            text.open(format!("methods.{function}("));
            text.line(format!("{index},"));
            text.line("&self.0,");
            text.open(closure);
        }
        let handler =
            format!("<{own} as {}>::{method}(&service, {arguments}).await;", self.names.name);
        let line = format!("let result = {handler}");
        if text.fits(&line, 0) {
            text.line(line);
        } else {
            text.lines(["let result =".to_owned(), format!("    {handler}")]);
        }
        // The service goes back, to be used for the next call without being counted.
        text.line("(service, result)");
        if is_short {
            text.close("});");
        } else {
            text.close("},");
            text.close(");");
        }
    }

    fn write_client(&self, text: &mut Text) {
        let ServiceNames { name, client, info, .. } = self.names;
        text.line(format!("/// Calls {}.", link_to_one("trait", name)));
        text.line("#[derive(Clone)]");
        text.open(format!("pub struct {client} {{"));
        text.line("service: calls::ServiceClient,");
        text.close("}");
        text.blank();
        text.open(format!("impl {client} {{"));
        text.line("/// A client whose calls go over `channel`.");
        let arguments = vec!["channel: calls::Channel".to_owned()];
        let head = Head { name: "new".to_owned(), arguments, result: "Self".to_owned() };
        text.function(&head, &[format!("Self {{ service: channel.bind(&{info}) }}")]);
        for call in &self.calls {
            text.blank();
            self.doc(call, text);
            self.write_stub(call, text);
        }
        text.close("}");
    }

    fn write_stub(&self, call: &Call<'_>, text: &mut Text) {
        let Call { input, output, index, shape, .. } = call;
        let into = self.scope.prelude("Into", "::core::convert::Into");
        let is_single = matches!(shape, Shape::Unary | Shape::ServerStreaming);
        let mut arguments = vec!["&self".to_owned()];
        arguments
            .extend(is_single.then(|| format!("request: impl {into}<calls::Request<{input}>>")));
        let result = match shape {
            Shape::Unary => format!("calls::Unary<{output}>"),
            Shape::ClientStreaming => format!("calls::Upload<{input}, {output}>"),
            Shape::ServerStreaming => format!("calls::Opening<calls::Streaming<{output}>>"),
            Shape::Bidirectional => {
                format!("calls::Opening<(calls::Sender<{input}>, calls::Streaming<{output}>)>")
            }
        };
        let request = if is_single { ", request.into()" } else { "" };
        let body = format!("self.service.{}({index}{request})", shape.function());
        text.function(&Head { name: call.name.clone(), arguments, result }, &[body]);
    }

    fn doc(&self, call: &Call<'_>, text: &mut Text) {
        text.doc(&[&docs::lines(call.method.comment()), &[self.declaration(call.method)]]);
    }

    /// The method as its .proto file declares it, as a span of code.
    fn declaration(&self, method: &Method) -> String {
        let side = |is_stream: bool, id| {
            let message = self.package.schema.message(id);
            let is_here = message.package() == self.service.package();
            let name = if is_here { message.local_name() } else { message.full_name() };
            format!("({}{name})", if is_stream { "stream " } else { "" })
        };
        let input = side(method.client_streaming(), method.input());
        let output = side(method.server_streaming(), method.output());
        format!("`rpc {}{input} returns {output}`", method.name())
    }

    fn marker(&self, name: &'static str) -> &'static str {
        match name {
            "Send" => self.scope.prelude("Send", "::core::marker::Send"),
            _ => self.scope.prelude("Sync", "::core::marker::Sync"),
        }
    }
}

fn write_method_info(call: &Call<'_>, text: &mut Text) {
    text.line(format!("name: {:?},", call.method.name()));
    text.line(format!("index: {},", call.index));
    text.line(format!("kind: calls::MethodKind::{:?},", call.shape));
    text.line(format!("idempotency: calls::Idempotency::{:?},", call.method.idempotency()));
}

/// What generated services import. A package with such a name of its own has them as `StdArc` and
/// `StdFuture`.
const IMPORTS: [(&str, &str); 2] =
    [("Arc", "::std::sync::Arc"), ("Future", "::core::future::Future")];

/// The imports of a package with services.
pub(crate) fn imports(scope: &Scope) -> impl Iterator<Item = String> {
    IMPORTS.iter().map(|(name, path)| match imported(scope, name) {
        renamed if renamed != *name => format!("use {path} as {renamed};"),
        _ => format!("use {path};"),
    })
}

/// What an import is called in a package.
fn imported(scope: &Scope, name: &str) -> String {
    if scope.names.has(name) { format!("Std{name}") } else { name.to_owned() }
}
