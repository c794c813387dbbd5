//! What breaks a group at random, and how it is judged.

use petasos_raft::{Change, MemberId, Settings};

use crate::node::Plants;
use crate::world::{Violation, World};

/// What happens to a group.
#[derive(Clone, Debug)]
pub struct Trial {
    pub voters: usize,
    pub settings: Settings,
    pub plants: Plants,
    /// By how much clocks run apart, in thousandths.
    pub drift: u64,
    pub is_changing: bool,
    pub steps: u64,
}

impl Trial {
    pub fn new(voters: usize) -> Trial {
        let settings = Settings {
            kept_bytes: 600,
            message_bytes: 300,
            window_bytes: 900,
            ..Settings::new(7, MemberId(0))
        };
        Trial {
            voters,
            settings,
            plants: Plants::default(),
            drift: 0,
            is_changing: false,
            steps: 60,
        }
    }

    /// Breaks a group, in a way that `seed` decides. Commands and reads that ended, or what promise
    /// was broken.
    pub fn run(&self, seed: u64) -> Result<(u64, u64), Violation> {
        let mut world = World::new(seed, self.voters, &self.settings);
        self.plant(&mut world);
        world.clients(3);
        for _ in 0..self.steps {
            let until_us = world.now_us + world.rng.below(150_000);
            world.run_until(until_us);
            if let Some(violation) = world.violation {
                return Err(violation);
            }
            self.break_something(&mut world);
        }
        self.heal(&mut world);
        world.check_acknowledged();
        let ended = (world.acknowledged.len() as u64, world.reads_done);
        world.violation.map_or(Ok(ended), Err)
    }

    fn plant(&self, world: &mut World) {
        let ids: Vec<MemberId> = world.nodes.keys().copied().collect();
        for id in ids {
            let rate = 1000 - self.drift + world.rng.below(2 * self.drift + 1);
            let node = world.node(id);
            node.plants = self.plants;
            world.set_rate(id, rate);
        }
    }

    fn any(world: &mut World) -> MemberId {
        let ids: Vec<MemberId> = world.nodes.keys().copied().collect();
        let at = world.rng.below(ids.len() as u64);
        ids[usize::try_from(at).unwrap()]
    }

    fn break_something(&self, world: &mut World) {
        let id = Trial::any(world);
        match world.rng.below(if self.is_changing { 14 } else { 12 }) {
            0 => {
                world.crash(id);
                world.start(id);
            }
            1 => world.crash(id),
            2 | 3 => {
                let down: Vec<MemberId> = world.nodes.keys().copied().collect();
                for id in down {
                    if world.nodes[&id].replica.is_none() {
                        world.start(id);
                    }
                }
            }
            4 => {
                let until_us = world.now_us + world.rng.below(600_000);
                world.node(id).paused_until_us = until_us;
            }
            5 => {
                let other = Trial::any(world);
                world.cut.insert((id, other));
            }
            6 => world.isolate(id),
            7 => world.cut.clear(),
            8 => world.loss = if world.rng.chance(0.5) { 0.2 } else { 0.0 },
            9 => world.delay_us = 1 + world.rng.below(20_000),
            10 => world.node(id).disk.slowness_us = 1 + world.rng.below(20_000),
            11 => world.node(id).snapshot(),
            12 => Trial::change(world, id),
            _ => Trial::hand_over(world, id),
        }
    }

    /// Changes members: there are two to five, of which one may be new.
    fn change(world: &mut World, id: MemberId) {
        let Some(leader) = world.leader() else { return };
        let clock = world.nodes[&leader].clock(world.now_us);
        let change = match world.rng.below(3) {
            0 => Change::Add { context: vec![1, 2, 3] },
            1 => Change::Promote(id),
            _ => Change::Remove(id),
        };
        let replica = world.node(leader).replica.as_mut().expect("it leads");
        let count = replica.membership().members().len();
        let fits = match change {
            Change::Add { .. } => count < 5,
            Change::Promote(_) => true,
            Change::Remove(_) => count > 2,
        };
        if fits {
            let _ = replica.change(clock, change, false);
        }
        world.settle(leader);
    }

    fn hand_over(world: &mut World, id: MemberId) {
        let Some(leader) = world.leader() else { return };
        let clock = world.nodes[&leader].clock(world.now_us);
        let replica = world.node(leader).replica.as_mut().expect("it leads");
        let _ = replica.hand_over(clock, id);
        world.settle(leader);
    }

    /// Mends everything: a leader is found, and what was acknowledged is still there.
    fn heal(&self, world: &mut World) {
        world.cut.clear();
        (world.loss, world.delay_us) = (0.0, 200);
        let ids: Vec<MemberId> = world.nodes.keys().copied().collect();
        for id in ids {
            let node = world.node(id);
            node.disk.slowness_us = 200;
            node.paused_until_us = 0;
            if node.replica.is_none() {
                world.start(id);
            }
        }
        let until_us = world.now_us + 3_000_000;
        world.run_until(until_us);
        let before = world.acknowledged.len();
        let until_us = world.now_us + 1_000_000;
        world.run_until(until_us);
        if world.violation.is_none() && world.acknowledged.len() == before {
            let what = "nothing is acknowledged although nothing is broken any longer";
            world.violation = Some(Violation(what.to_owned()));
        }
    }
}
