//! Unary calls of typed services.
//!
//! Over datagrams, the loop that makes the calls runs in the generator's thread: one that had a
//! thread of its own would need a third processor, beside the generator's and the server's. gRPC
//! has its own threads.

use std::rc::Rc;

use petasos::message::Msg;
use petasos::rt::MethodKind;
use petasos::untyped::{Client, NoSuchMethod, Payload, Service};
use petasos::{Channel, Request, Unary};
use petasos_cli::failed::Failed;
use petasos_cli::in_loop::InLoop;
use petasos_load::{Calls, Driver, Parked, Target};

use super::args::LoadArgs;
use crate::typed::{Known, path};

/// A call as it is made each time.
pub struct Call<'a> {
    args: &'a LoadArgs,
    service: Service,
    method: String,
    request: Msg<Payload>,
    is_in_loop: bool,
}

impl<'a> Call<'a> {
    /// Of the method and the JSON that `args` name.
    pub fn new(args: &'a LoadArgs, is_in_loop: bool) -> Result<Call<'a>, Failed> {
        let (name, json) = match &args.request[..] {
            [name] => (name, "{}"),
            [name, json] => (name, json.as_str()),
            _ => {
                return Err(Failed::new("a call has a method and one request")
                    .with_advice("give package.Service/Method and the request as JSON"));
            }
        };
        let (service, method) = path(name).map_err(|advice| {
            Failed::new(format!("`{name}` is no method of a service")).with_advice(advice)
        })?;
        let known = Known::find(&args.schema, None, &args.server, &service)?;
        let found = known.method(&service, &method)?;
        let request = known.encode(found.input(), json)?;
        let request = Payload::from_bytes(&request);
        let request = request.map_err(|status| Failed::of_status(&status))?;
        let described = Service::described(&known.schema, &service);
        let described = described.map_err(|error| Failed::new(error.to_string()))?;
        let kind = described.info().method_by_name(&method);
        if kind.is_none_or(|info| info.kind != MethodKind::Unary) {
            return Err(Failed::new(format!("`{name}` is a stream"))
                .with_advice("give a method with one request and one response"));
        }
        Ok(Call { args, service: described, method, request, is_in_loop })
    }

    /// Connects to the server.
    pub fn connect(&self) -> Result<Box<dyn Target + '_>, Failed> {
        if !self.is_in_loop {
            let channel = self.args.server.connect()?;
            return Ok(self.calls(&channel, Parked));
        }
        let (event_loop, channel) = self.args.server.connect_in_loop()?;
        let driver = InLoop::new(Rc::new(event_loop));
        let driver =
            driver.map_err(|error| Failed::new(format!("cannot wait for packets: {error}")))?;
        Ok(self.calls(&channel, driver))
    }

    fn calls(&self, channel: &Channel, driver: impl Driver + 'static) -> Box<dyn Target + '_> {
        let client = Client::new(channel, self.service.clone());
        let make = move || answer(client.unary(&self.method, Request::new(self.request.clone())));
        Box::new(Calls::new(make, driver, self.args.outstanding))
    }
}

/// Waits for the answer to a call that has begun.
async fn answer(call: Result<Unary<Payload>, NoSuchMethod>) -> Result<(), String> {
    let call = call.map_err(|error| error.to_string())?;
    call.await.map(drop).map_err(|status| Failed::of_status(&status).to_string())
}
