//! What an operator can change while requests come.

use core::time::Duration;

use crate::config::{Config, ConfigError};
use crate::policy::Policy;
use crate::router::Router;

/// The settings of a [`Config`] that can change while requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjustment {
    /// See [`Config::policy`]. Workers that have more than a lower bound allows get nothing until
    /// they have less.
    pub policy: Policy,
    /// See [`Config::waiting_max`]. If more wait than a lower bound allows, they go on waiting.
    pub waiting_max: usize,
    /// See [`Config::waiting_age_max`]. Of requests that wait already it does not change.
    pub waiting_age_max: Option<Duration>,
}

impl Config {
    /// What can be adjusted of it.
    pub fn adjustment(&self) -> Adjustment {
        let Config { policy, waiting_max, waiting_age_max, .. } = *self;
        Adjustment { policy, waiting_max, waiting_age_max }
    }

    /// The same, adjusted.
    pub fn adjusted(&self, to: Adjustment) -> Config {
        let Adjustment { policy, waiting_max, waiting_age_max } = to;
        Config { policy, waiting_max, waiting_age_max, ..self.clone() }
    }
}

impl<T> Router<T> {
    /// Goes by other settings from now on. Requests that wait keep their places, and those that
    /// workers have stay counted. Afterwards outputs have to be taken, as after an input.
    ///
    /// This takes a time that grows with the number of workers and of requests that may wait, and
    /// may allocate.
    ///
    /// # Errors
    /// The settings are wrong. Nothing has changed.
    pub fn adjust(&mut self, to: Adjustment) -> Result<(), ConfigError> {
        let config = self.config.adjusted(to);
        config.check()?;
        if to.policy != self.config.policy {
            self.workers.set_policy(to.policy);
        }
        self.queue.set_room(to.waiting_max);
        self.config = config;
        Ok(())
    }
}
