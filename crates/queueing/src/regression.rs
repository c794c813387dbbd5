//! Means with control variates: what is known exactly of the input corrects what is observed.
//!
//! A batch in which requests came faster than they should, or took longer, has longer waits. The
//! regression of waits on these deviations, whose expectation is 0, says by how much; its intercept
//! is the mean without them, with less variance (Lavenberg and Welch, "A perspective on the use of
//! control variables", 1981). The same requests at one fast worker are a control, too: it has a
//! queue when the many workers have one, and its mean wait is known.

/// Controls of an observation.
pub(crate) const CONTROLS: usize = 5;
const TERMS: usize = CONTROLS + 1;
/// Fewer batches are averaged without controls: too little would be left to tell the error.
const BATCHES_MIN: usize = 16;

/// One batch's value, and the deviations of its input from their expectations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    pub value: f64,
    pub controls: [f64; CONTROLS],
}

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Its standard error; NaN if there is too little to tell it.
    pub stderr: f64,
}

/// The mean of the values that are expected if all controls are 0. A control that does not vary is
/// left out.
pub(crate) fn controlled_mean(observations: &[Observation]) -> Estimate {
    let used: Vec<usize> = (0..CONTROLS).filter(|control| varies(observations, *control)).collect();
    if observations.len() < BATCHES_MIN {
        return mean(observations);
    }
    let rows = observations.iter().map(|of| (terms(&of.controls, &used), of.value));
    let mut normal = Normal::default();
    rows.clone().for_each(|(terms, value)| normal.add(&terms, value));
    let size = used.len() + 1;
    let Some((coefficients, inverse)) = normal.solve(size) else { return mean(observations) };
    let residual = |(terms, value): ([f64; TERMS], f64)| {
        let expected: f64 = terms.iter().zip(&coefficients).map(|(term, of)| term * of).sum();
        (value - expected).powi(2)
    };
    let freedom = observations.len() - size;
    let variance = rows.map(residual).sum::<f64>() / freedom as f64;
    Estimate { value: coefficients[0], stderr: (variance * inverse).sqrt() }
}

fn mean(observations: &[Observation]) -> Estimate {
    let count = observations.len() as f64;
    let value = observations.iter().map(|of| of.value).sum::<f64>() / count;
    let squares: f64 = observations.iter().map(|of| (of.value - value).powi(2)).sum();
    // With one batch this is 0 / 0.
    Estimate { value, stderr: (squares / (count - 1.0) / count).sqrt() }
}

fn varies(observations: &[Observation], control: usize) -> bool {
    let first = observations.first().map(|of| of.controls[control]);
    observations
        .iter()
        .any(|of| first.is_some_and(|first| (of.controls[control] - first).abs() > 1e-12))
}

/// 1 and the controls that are used.
fn terms(controls: &[f64; CONTROLS], used: &[usize]) -> [f64; TERMS] {
    let mut terms = [0.0; TERMS];
    terms[0] = 1.0;
    for (term, control) in terms[1..].iter_mut().zip(used) {
        *term = controls[*control];
    }
    terms
}

/// Least squares: the normal equations, with the first unit vector as a second right side.
#[derive(Clone, Debug, Default)]
struct Normal {
    rows: [[f64; TERMS + 2]; TERMS],
}

impl Normal {
    fn add(&mut self, terms: &[f64; TERMS], value: f64) {
        for (row, left) in self.rows.iter_mut().zip(terms) {
            for (cell, right) in row.iter_mut().zip(terms) {
                *cell += left * right;
            }
            row[TERMS] += left * value;
        }
    }

    /// The coefficients of the first `size` terms, and the first element of the inverse; none if
    /// the equations have no single solution. Gauss and Jordan's elimination with pivots.
    fn solve(mut self, size: usize) -> Option<([f64; TERMS], f64)> {
        let scales: [f64; TERMS] = core::array::from_fn(|term| self.rows[term][term]);
        let rows = &mut self.rows[..size];
        rows[0][TERMS + 1] = 1.0;
        for column in 0..size {
            let largest = |row: &usize| rows[*row][column].abs();
            let pivot = (column..size).max_by(|a, b| largest(a).total_cmp(&largest(b)))?;
            rows.swap(column, pivot);
            let pivot = rows[column];
            // What is left of a term that others explain is rounding.
            if pivot[column].abs() <= 1e-12 * scales[column] {
                return None;
            }
            for row in (0..size).filter(|row| *row != column) {
                let factor = rows[row][column] / pivot[column];
                rows[row].iter_mut().zip(pivot).for_each(|(cell, of)| *cell -= factor * of);
            }
        }
        let mut coefficients = [0.0; TERMS];
        for (index, row) in rows.iter().enumerate() {
            coefficients[index] = row[TERMS] / row[index];
        }
        Some((coefficients, rows[0][TERMS + 1] / rows[0][0]))
    }
}

#[cfg(test)]
mod tests {
    use petasos_base::Rng;

    use super::*;

    fn uniform(rng: &mut Rng) -> f64 {
        rng.below(1 << 40) as f64 / (1u64 << 40) as f64 - 0.5
    }

    fn observed(rng: &mut Rng, count: usize, noise: f64) -> Vec<Observation> {
        let mut observe = |_| {
            let controls: [f64; CONTROLS] = core::array::from_fn(|_| uniform(rng));
            let value = 7.0 + 3.0 * controls[0] - 2.0 * controls[1] + noise * uniform(rng);
            Observation { value, controls }
        };
        (0..count).map(&mut observe).collect()
    }

    #[test]
    fn what_controls_explain_is_taken_away() {
        let mut rng = Rng::new(6);
        let exact = controlled_mean(&observed(&mut rng, 64, 0.0));
        assert!((exact.value - 7.0).abs() < 1e-9 && exact.stderr < 1e-9, "{exact:?}");
        let plain = mean(&observed(&mut rng, 64, 0.0));
        assert!(plain.stderr > 0.05);
    }

    #[test]
    fn the_error_is_what_it_says() {
        let mut rng = Rng::new(7);
        let runs = 2000;
        let is_within = |_: &i32| {
            let estimate = controlled_mean(&observed(&mut rng, 64, 1.0));
            (estimate.value - 7.0).abs() < estimate.stderr
        };
        let within = (0..runs).filter(is_within).count();
        // 68 %, with a standard deviation of 1 %.
        assert!((1250..1470).contains(&within), "{within} of {runs}");
    }

    #[test]
    fn controls_that_do_not_vary_are_left_out() {
        let mut rng = Rng::new(8);
        let mut observations = observed(&mut rng, 64, 0.1);
        observations.iter_mut().for_each(|of| {
            of.value += 2.0 * of.controls[1];
            of.controls[1] = 0.0;
        });
        let estimate = controlled_mean(&observations);
        assert!((estimate.value - 7.0).abs() < 0.05 && estimate.stderr < 0.02, "{estimate:?}");
    }

    #[test]
    fn without_a_single_solution_controls_are_not_used() {
        let mut rng = Rng::new(10);
        let mut observations = observed(&mut rng, 64, 1.0);
        observations.iter_mut().for_each(|of| of.controls[2] = 3.0 * of.controls[1]);
        assert_eq!(controlled_mean(&observations), mean(&observations));
    }

    #[test]
    fn a_few_batches_are_averaged_and_one_has_no_error() {
        let mut rng = Rng::new(9);
        let few = observed(&mut rng, 4, 1.0);
        assert_eq!(controlled_mean(&few), mean(&few));
        assert!(controlled_mean(&few[..1]).stderr.is_nan());
    }
}
