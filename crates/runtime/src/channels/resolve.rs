//! Looking the servers of channels up.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_rpc::settings::{ChannelInfo, FoundServers, Routers, Servers};

use crate::shared::{Command, Shared};

/// Looks for a channel's servers. The loop gets the result as a command.
pub(crate) fn resolve(runtime: &Arc<Shared>, channel: u32, info: Arc<ChannelInfo>) {
    match &info.servers {
        Servers::Resolved(resolver) | Servers::Group(Routers::Resolved(resolver)) => {
            let (runtime, weak) = (runtime.clone(), Arc::downgrade(&info));
            resolver.resolve(FoundServers::new(move |found| {
                if let Some(info) = weak.upgrade() {
                    tell(&runtime, channel, info, found);
                }
            }));
        }
        Servers::Addresses(_) | Servers::Names(_) | Servers::Carried(_) | Servers::Group(_) => {
            look_up(runtime, channel, info);
        }
    }
}

/// Looks names up on a separate thread.
fn look_up(runtime: &Arc<Shared>, channel: u32, info: Arc<ChannelInfo>) {
    let (shared, of) = (runtime.clone(), info.clone());
    let look_up = move || {
        let found = of.servers.look_up();
        tell(&shared, channel, of, found);
    };
    let thread = std::thread::Builder::new().name("petasos-resolver".into());
    if let Err(error) = thread.spawn(look_up) {
        tell(runtime, channel, info, Err(error));
    }
}

fn tell(
    runtime: &Shared,
    channel: u32,
    info: Arc<ChannelInfo>,
    found: io::Result<Vec<SocketAddr>>,
) {
    let found = match info.servers.is_group() {
        true => found.map(Routers::of_group),
        false => found,
    };
    runtime.send(Command::Resolved { channel, info, found });
}
