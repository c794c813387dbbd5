//! A whole endpoint as a host of the simulated network.

use petasos_base::Time;
use petasos_endpoint::{Clock, Endpoint, EndpointConfig, PoolConfig, Switches};

use super::app::{self, App, METHOD, METHODS_TINY};
use super::check::{HostAtRest, Life, Violation};
use crate::{Host, HostSeat};

/// One life of one host.
pub(super) struct Node {
    pub(super) endpoint: Endpoint<App>,
    pool: PoolConfig,
    /// Bytes that the last responses of all server sessions can hold.
    pub(super) retained_bytes_max: usize,
}

impl Node {
    pub(super) fn new(
        seat: HostSeat,
        config: &EndpointConfig,
        switches: Switches,
        app: App,
    ) -> Node {
        let config = EndpointConfig { seed: Some(seat.seed), ..config.clone() };
        let pool = config.pool;
        let mut endpoint = Endpoint::new(config, seat.port, Clock::Virtual(seat.clock), app);
        endpoint.set_switches(switches);
        for method in METHODS_TINY.chain([METHOD]) {
            endpoint.register(method, app::handle);
        }
        Node { endpoint, pool, retained_bytes_max: 0 }
    }

    pub(super) fn app(&self) -> &App {
        self.endpoint.state()
    }

    /// What the host still holds. `closed` says that all its sessions were closed.
    pub(super) fn at_rest(&self, closed: bool) -> HostAtRest {
        let (running, calls) = self.endpoint.unfinished();
        let app = self.app();
        HostAtRest {
            life: app.life,
            running,
            calls,
            lent_bytes: self.endpoint.memory().pool.lent_bytes,
            lent_bytes_max: self.pool.lent_bytes_max,
            panics: self.endpoint.stats().event_loop.panics,
            silent: app.silent,
            retained_bytes_max: self.retained_bytes_max,
            closed,
        }
    }

    /// Checks what must hold at every moment.
    pub(super) fn check_limits(&self) -> Result<(), Violation> {
        let pool = self.endpoint.memory().pool;
        let life = self.app().life;
        if self.endpoint.stats().event_loop.panics > 0 {
            return Err(Violation::new("no panics", format_args!("{life:?}")));
        }
        if pool.lent_bytes > self.pool.lent_bytes_max || pool.kept_bytes > self.pool.kept_bytes_max
        {
            let what = format_args!("{life:?}: {pool:?}, {:?}", self.pool).to_string();
            return Err(Violation::new("the pool keeps its limits", what));
        }
        Ok(())
    }
}

/// The name by which a host's endpoint knows another life, for [`Endpoint::fail_peer`].
pub(super) fn peer_id(life: Life) -> u64 {
    u64::from(life.host) << 32 | u64::from(life.restarts)
}

impl Host for Node {
    fn run(&mut self, now: Time) -> Time {
        self.endpoint.run_once();
        let (app, cx) = self.endpoint.split();
        let acts_at = app.act(cx, now);
        // What it did is sent in the next turn, which is due at once.
        self.endpoint.next_turn_at().min(acts_at)
    }
}
