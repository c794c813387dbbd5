//! Loops whose calls go through the managed service of their host.
//!
//! Such a loop has external sessions only, and a [`Carrier`] that carries their calls. Each turn
//! lets it receive first and send last (`turn::managed`).

use core::task::{Context as TaskContext, Poll};

use std::net::SocketAddr;

use petasos_endpoint::Notifier;
use petasos_managed::{Carrier, Description, ServiceConfig};
use petasos_rpc::descriptors::{MethodKind, ServiceRef};
use petasos_rpc::dynamic::is_untyped;
use petasos_schema::LAYOUT_VERSION;

use crate::channels::{Dial, Dialled};
use crate::dispatcher::Dispatcher;
use crate::local::Local;

/// Gives a loop a carrier, which serves at `address`.
pub(crate) fn set_up(
    local: &'static Local,
    service: ServiceConfig,
    notifier: Notifier,
    address: Option<SocketAddr>,
) {
    let mut carrier = Carrier::new(service, LAYOUT_VERSION as u16, notifier);
    address.into_iter().for_each(|address| carrier.serve_at(address));
    local.shared.set_buffers(carrier.buffers());
    local.managed.set(carrier);
}

/// Opens sessions through the service.
pub(crate) fn dial(local: &'static Local) -> Dial<Dispatcher> {
    Box::new(move |endpoint, Dialled { address, name }, slots| {
        let opened = local.managed.with(|carrier| match name {
            Some(name) => carrier.open_named(endpoint.context(), name, slots),
            None => carrier.open(endpoint.context(), address, slots),
        });
        opened.ok_or_else(|| "the loop has ended".to_owned())
    })
}

/// Whether the loop may sleep.
pub(crate) fn before_sleep(dispatcher: &mut Dispatcher) -> bool {
    dispatcher.parts.local.managed.with(Carrier::may_sleep).unwrap_or(true)
}

/// Lets a service be called through the service.
pub(crate) fn describe(local: &Local, called: &ServiceRef) {
    // A schema that cannot be numbered is refused when it is bound.
    let describe = |described: &Description<'_>| {
        local.managed.with(|carrier| carrier.call(described, &called.module()))
    };
    let _ = with_description(called, describe);
}

/// Serves a service whose methods have numbers from `first` on.
pub(crate) fn serve(local: &Local, served: &ServiceRef, first: u16) {
    let serve = |described: &Description<'_>| {
        local.managed.with(|carrier| carrier.serve(described, &served.module(), first));
    };
    with_description(served, serve);
    local.kick();
}

fn with_description<R>(of: &ServiceRef, run: impl FnOnce(&Description<'_>) -> R) -> R {
    let methods = of.methods().map(|method| (method.name, method.kind != MethodKind::Unary));
    let methods: Vec<_> = methods.collect();
    let has_layout = !is_untyped(of);
    run(&Description { name: of.name(), hash: of.hash(), methods: &methods, has_layout })
}

/// Where others call this process, once the service lets them.
pub(crate) fn served_address(local: &Local) -> Option<SocketAddr> {
    local.managed.with(|carrier| carrier.served_address()).flatten()
}

/// Ready when the service lets others call this process, or says why it does not.
pub(crate) fn poll_served(local: &Local, cx: &mut TaskContext<'_>) -> Poll<Result<(), String>> {
    let serving = local.managed.with(|carrier| carrier.is_serving().map_err(str::to_owned));
    match serving {
        Some(Ok(true)) => Poll::Ready(Ok(())),
        Some(Err(why)) => Poll::Ready(Err(why)),
        None if !local.managed.is_on() => Poll::Ready(Ok(())),
        // The carrier works: this is asked again after that.
        None | Some(Ok(false)) => {
            local.managed.wait(cx.waker().clone());
            Poll::Pending
        }
    }
}
