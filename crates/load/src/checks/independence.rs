//! Are gaps independent of those before?

use super::GAPS_MIN;

/// How far back correlations are looked for. It is even, which makes the p-value a finite sum.
const LAGS: usize = 20;

/// The p-value of the hypothesis that gaps do not depend on the 20 before: that of the Ljung-Box
/// statistic (Ljung and Box, "On a measure of lack of fit in time series models", 1978). `None`
/// below [`GAPS_MIN`] gaps.
///
/// Correlations are those of the gaps' probabilities, 1 - exp(-gap / mean), which are uniform for
/// exponential gaps: a few long gaps do not outweigh all others. `stretches` are of gaps in a row;
/// no correlation between different ones is looked at.
pub fn p_independent(stretches: &[Vec<u64>]) -> Option<f64> {
    let gaps = || stretches.iter().flatten().map(|gap| *gap as f64);
    let count = gaps().count();
    if count < GAPS_MIN {
        return None;
    }
    let mean = gaps().sum::<f64>() / count as f64;
    let probability = |gap: f64| -(-gap / mean).exp_m1();
    let middle = gaps().map(probability).sum::<f64>() / count as f64;
    let deviations: Vec<Vec<f64>> = stretches
        .iter()
        .map(|gaps| gaps.iter().map(|gap| probability(*gap as f64) - middle).collect())
        .collect();
    let squares: f64 = deviations.iter().flatten().map(|deviation| deviation * deviation).sum();
    if mean <= 0.0 || squares <= f64::EPSILON {
        // All gaps are equal: each is known from the one before.
        return Some(0.0);
    }
    let statistic: f64 = (1..=LAGS).map(|lag| of_lag(&deviations, lag, squares)).sum();
    Some(chi_square_above(statistic))
}

/// The square of the correlation at a lag over its variance, which is that of a mean of so many
/// products.
fn of_lag(deviations: &[Vec<f64>], lag: usize, squares: f64) -> f64 {
    let count = deviations.iter().map(Vec::len).sum::<usize>() as f64;
    let (mut products, mut pairs) = (0.0, 0);
    for stretch in deviations.iter().filter(|stretch| stretch.len() > lag) {
        products +=
            stretch.iter().zip(&stretch[lag..]).map(|(one, other)| one * other).sum::<f64>();
        pairs += stretch.len() - lag;
    }
    if pairs == 0 {
        return 0.0;
    }
    (products / squares * count).powi(2) / pairs as f64
}

/// The probability that a chi-square variable with [`LAGS`] degrees of freedom is larger; for even
/// numbers of them it is that of fewer than half as many events of a Poisson process.
fn chi_square_above(statistic: f64) -> f64 {
    let half = statistic / 2.0;
    let mut term = (-half).exp();
    let mut sum = term;
    for events in 1..LAGS / 2 {
        term *= half / events as f64;
        sum += term;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chi_square_has_the_percentage_points_of_tables() {
        for (statistic, p) in [(10.851, 0.95), (19.337, 0.5), (31.410, 0.05), (45.315, 0.001)] {
            assert!((chi_square_above(statistic) / p - 1.0).abs() < 1e-3, "{statistic}");
        }
        assert_eq!((chi_square_above(0.0), chi_square_above(1e9)), (1.0, 0.0));
    }
}
