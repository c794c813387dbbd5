//! What guests ask for: the mix of DeathStarBench's workload generator.

use petasos_base::Rng;

use crate::store::data;

/// A request of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub method: &'static str,
    /// The path, and the query behind it.
    pub target: String,
}

/// Requests at random, the same for the same seed: 60 % searches, 39 % recommendations, half a
/// percent logins and as many reservations.
#[derive(Clone, Debug)]
pub struct Mix {
    rng: Rng,
}

const SEARCHES: u64 = 600;
const RECOMMENDATIONS: u64 = 390;
const LOGINS: u64 = 5;

impl Mix {
    /// A mix of its own for each seed.
    pub fn new(seed: u64) -> Mix {
        Mix { rng: Rng::new(seed) }
    }

    /// The next request.
    pub fn ask(&mut self) -> Ask {
        match self.rng.below(1000) {
            0..SEARCHES => self.search(),
            SEARCHES.. if self.rng.below(1000 - SEARCHES) < RECOMMENDATIONS => self.recommend(),
            _ if self.rng.below(2 * LOGINS) < LOGINS => self.login(),
            _ => self.reserve(),
        }
    }

    /// A number from `first` to `last`.
    fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.rng.below(last - first + 1)
    }

    fn place(&mut self) -> String {
        let lat = 38.0235 + (self.rng.below(482) as f64 - 240.5) / 1000.0;
        let lon = -122.095 + (self.rng.below(326) as f64 - 157.0) / 1000.0;
        format!("lat={lat:.4}&lon={lon:.4}")
    }

    fn search(&mut self) -> Ask {
        let from = self.between(9, 23);
        let until = self.between(from + 1, 24);
        let place = self.place();
        let days = days(from, until);
        Ask { method: "GET", target: format!("/hotels?{days}&{place}") }
    }

    fn recommend(&mut self) -> Ask {
        let require = match self.rng.below(100) {
            0..33 => "dis",
            33..66 => "rate",
            _ => "price",
        };
        let place = self.place();
        Ask { method: "GET", target: format!("/recommendations?require={require}&{place}") }
    }

    fn login(&mut self) -> Ask {
        let (name, password) = data::user(self.user());
        Ask { method: "POST", target: format!("/user?username={name}&password={password}") }
    }

    fn user(&mut self) -> u16 {
        self.rng.below(u64::from(data::USER_LAST) + 1) as u16
    }

    fn reserve(&mut self) -> Ask {
        let from = self.between(9, 23);
        let until = from + self.between(1, 5);
        let hotel = self.between(1, u64::from(data::HOTELS));
        let (name, password) = data::user(self.user());
        let days = days(from, until);
        let target = format!(
            "/reservation?{days}&hotelId={hotel}&customerName={name}&username={name}\
             &password={password}&number=1"
        );
        Ask { method: "POST", target }
    }
}

fn days(from: u64, until: u64) -> String {
    format!("inDate=2015-04-{from:02}&outDate=2015-04-{until:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_the_suite_s() {
        let mut mix = Mix::new(1);
        let asks: Vec<Ask> = (0..20_000).map(|_| mix.ask()).collect();
        let share = |path: &str| {
            let count = asks.iter().filter(|ask| ask.target.starts_with(path)).count();
            count as f64 / asks.len() as f64
        };
        assert!((0.58..0.62).contains(&share("/hotels?")));
        assert!((0.37..0.41).contains(&share("/recommendations?")));
        assert!((0.003..0.007).contains(&share("/user?")));
        assert!((0.003..0.007).contains(&share("/reservation?")));
        let mut again = Mix::new(1);
        assert!(asks.iter().all(|ask| *ask == again.ask()));
        assert_ne!(Mix::new(2).ask(), asks[0]);
    }

    #[test]
    fn stays_are_in_april() {
        let mut mix = Mix::new(7);
        for _ in 0..5000 {
            let target = mix.ask().target;
            for (name, least, most) in [("inDate=", 9, 23), ("outDate=", 10, 28)] {
                let Some((_, rest)) = target.split_once(name) else { continue };
                let day = rest.strip_prefix("2015-04-").expect("it is April");
                let day: u64 = day[..2].parse().expect("it is a day");
                assert!((least..=most).contains(&day), "{target}");
            }
        }
    }
}
