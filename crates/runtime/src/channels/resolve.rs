//! Looking up the servers of channels.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_rpc::settings::{ChannelInfo, FoundServers, Servers};

use crate::shared::{Command, Shared};

/// Looks for a channel's servers. What is found comes to the loop by command.
pub(super) fn resolve(home: &Arc<Shared>, channel: u32, info: Arc<ChannelInfo>) {
    match &info.servers {
        Servers::Resolved(resolver) => {
            let (home, weak) = (home.clone(), Arc::downgrade(&info));
            resolver.resolve(FoundServers::new(move |found| {
                if let Some(info) = weak.upgrade() {
                    tell(&home, channel, info, found);
                }
            }));
        }
        Servers::Addresses(_) | Servers::Names(_) => look_up(home, channel, info),
    }
}

/// Looks names up on a thread of its own.
fn look_up(home: &Arc<Shared>, channel: u32, info: Arc<ChannelInfo>) {
    let (shared, of) = (home.clone(), info.clone());
    let look_up = move || {
        let found = of.servers.look_up();
        tell(&shared, channel, of, found);
    };
    let thread = std::thread::Builder::new().name("petasos-resolver".into());
    if let Err(error) = thread.spawn(look_up) {
        tell(home, channel, info, Err(error));
    }
}

fn tell(home: &Shared, channel: u32, info: Arc<ChannelInfo>, found: io::Result<Vec<SocketAddr>>) {
    home.send(Command::Resolved { channel, info, found });
}
