//! Distributions of service times, all with the mean 1.

use core::fmt;
use core::str::FromStr;

use petasos_base::Rng;

/// How long workers take for requests, in units of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// All the same.
    Deterministic,
    /// Exponential.
    Exponential,
    /// 90 % take 0.5, and 10 % take 5.5 (R2P2, section 2.3).
    Bimodal1,
    /// 10 % take ten times as long as the rest (R2P2, figure 7).
    Bimodal2,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 4] =
        [Service::Deterministic, Service::Exponential, Service::Bimodal1, Service::Bimodal2];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Service::Deterministic => "deterministic",
            Service::Exponential => "exponential",
            Service::Bimodal1 => "bimodal1",
            Service::Bimodal2 => "bimodal2",
        }
    }

    /// The values and their probabilities, if there are only a few.
    pub fn values(self) -> &'static [(f64, f64)] {
        match self {
            Service::Deterministic => &[(1.0, 1.0)],
            Service::Exponential => &[],
            Service::Bimodal1 => &[(0.5, 0.9), (5.5, 0.1)],
            // s for nine of ten, 10 s for the tenth: 1.9 s = 1.
            Service::Bimodal2 => &[(1.0 / 1.9, 0.9), (10.0 / 1.9, 0.1)],
        }
    }

    /// A random time.
    #[inline]
    pub fn sample(self, rng: &mut Rng) -> f64 {
        match self {
            Service::Deterministic => 1.0,
            Service::Exponential => rng.exponential(),
            Service::Bimodal1 => {
                if rng.below(10) == 0 {
                    5.5
                } else {
                    0.5
                }
            }
            Service::Bimodal2 => {
                if rng.below(10) == 0 {
                    10.0 / 1.9
                } else {
                    1.0 / 1.9
                }
            }
        }
    }

    /// The expected square.
    pub fn second_moment(self) -> f64 {
        match self {
            Service::Exponential => 2.0,
            _ => self.values().iter().map(|(time, part)| part * time * time).sum(),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no distribution has. The user's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no distribution; there are deterministic, exponential, bimodal1 and bimodal2")]
pub struct UnknownService {
    name: String,
}

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(name: &str) -> Result<Service, UnknownService> {
        let found = Service::ALL.into_iter().find(|service| service.name() == name);
        found.ok_or_else(|| UnknownService { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_moments() {
        for service in Service::ALL {
            let mut rng = Rng::new(5);
            let count = 400_000;
            let times: Vec<f64> = (0..count).map(|_| service.sample(&mut rng)).collect();
            let mean = times.iter().sum::<f64>() / f64::from(count);
            let second = times.iter().map(|time| time * time).sum::<f64>() / f64::from(count);
            // The standard deviations are at most 0.0024 and 0.015.
            assert!((mean - 1.0).abs() < 0.01, "{service}: {mean}");
            assert!((second - service.second_moment()).abs() < 0.06, "{service}: {second}");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for service in Service::ALL {
            assert_eq!(service.to_string().parse(), Ok(service));
        }
        assert!("Exponential".parse::<Service>().is_err());
    }
}
