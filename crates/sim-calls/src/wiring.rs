//! Sets sessions up as a control protocol would, and reports hosts that have died.

use petasos_base::Rng;
use petasos_endpoint::{CallError, SessionSecurity};
use petasos_netio::memory::MemoryIo;
use petasos_sim::World;
use petasos_sim::cluster::{Life, security};

use crate::dials::{Asked, Dials, peer_id};
use crate::program::Program;

/// Sets up the sessions that are due, or fails them. They are sealed if there are `keys`. Those
/// with servers whose deaths are hidden wait.
pub(crate) fn tick(
    dials: &Dials,
    is_hidden: &dyn Fn(Life) -> bool,
    world: &mut World<Program>,
    rng: &mut Rng,
    mut keys: Option<&mut Rng>,
) {
    let now = world.now();
    let list = core::mem::take(&mut *dials.asked.borrow_mut());
    for mut asked in list {
        let due = *asked.due.get_or_insert_with(|| now.plus_nanos(rng.below(500_000)));
        if due > now || is_hidden(asked.server) {
            dials.asked.borrow_mut().push(asked);
        } else if is_current(world, asked.client) {
            set_up(world, &asked, keys.as_deref_mut().map(security));
        }
    }
}

pub(crate) fn is_current(world: &World<Program>, life: Life) -> bool {
    world.is_alive(life.host) && world.restarts(life.host) == life.restarts
}

fn set_up(world: &mut World<Program>, asked: &Asked, security: Option<SessionSecurity>) {
    let Asked { client, server, offer, .. } = asked;
    let granted = is_current(world, *server).then(|| {
        world.with_host(server.host, |program, _| {
            let ip = MemoryIo::address(client.host).ip();
            let peer = Some(peer_id(*client));
            let security = security.clone();
            program
                .node_mut()
                .with_endpoint(|end| end.accept_secured(&offer.params, ip, peer, security))
        })
    });
    world.with_host(client.host, |program, _| {
        program.node_mut().with_endpoint(|endpoint| match granted {
            Some(Ok(granted)) => {
                let ip = MemoryIo::address(server.host).ip();
                // A session that the client has closed meanwhile cannot be established.
                let _ = endpoint.establish_secured(offer, &granted, ip, security);
            }
            _ => endpoint.fail_session(offer.session, CallError::PeerFailed),
        });
    });
}

/// Tells every other living host that `dead` has failed.
pub(crate) fn tell_death(world: &mut World<Program>, dead: Life) {
    for number in 0..world.topology().hosts() {
        let is_loop = matches!(world.host(number), Program::Loop(_));
        if number != dead.host && is_loop && world.is_alive(number) {
            world.with_host(number, |program, _| {
                program.node_mut().with_endpoint(|endpoint| endpoint.fail_peer(peer_id(dead)));
            });
        }
    }
}
