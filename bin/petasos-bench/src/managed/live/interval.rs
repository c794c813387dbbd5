//! Means of rounds, and how far they can be trusted.

/// A mean of values that are measured again and again, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub value: f64,
    /// The interval reaches so far below and above it.
    pub half: f64,
}

/// Student's t for 95 % on both sides, by degrees of freedom from 1.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for more of them. Up to infinity, it falls to 1.960: the interval is not too short.
const T_OF_MANY: f64 = 2.042;

impl Mean {
    /// Of at least two values.
    pub fn of(values: &[f64]) -> Option<Mean> {
        let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
        let value = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        let error = (squares / freedom as f64 / values.len() as f64).sqrt();
        let t = T.get(freedom - 1).copied().unwrap_or(T_OF_MANY);
        Some(Mean { value, half: t * error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_student() {
        assert_eq!(Mean::of(&[3.0]), None);
        assert_eq!(Mean::of(&[2.0; 9]), Some(Mean { value: 2.0, half: 0.0 }));
        // Deviation 1, so an error of 1/sqrt(3).
        let mean = Mean::of(&[1.0, 2.0, 3.0]).expect("three are enough");
        assert!((mean.value - 2.0).abs() < 1e-9 && (mean.half - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        let many: Vec<f64> = (0..200).map(|at| f64::from(at % 2)).collect();
        let half = Mean::of(&many).expect("there are many").half;
        assert!((half - 2.042 * (0.25f64 / 199.0).sqrt()).abs() < 1e-6, "{half}");
    }
}
