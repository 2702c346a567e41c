//! Statistics of rounds: medians, spreads, and intervals of paired ratios.

use flow_table::idx;
use serde::Serialize;

use crate::rng::Rng;

/// Resamples of a bootstrap.
const RESAMPLES: u32 = 2000;

/// What the rounds of one measurement gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many there were.
    pub rounds: usize,
}

/// A median with an interval that holds the true one in 90 of 100 runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The 5 % quantile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The 95 % quantile.
    pub high: f64,
}

/// Median, least and greatest of `rounds`; zeros when there are none.
#[must_use]
pub fn summarize(rounds: &[f64]) -> Summary {
    let sorted = sorted(rounds);
    Summary {
        median: quantile(&sorted, 1, 2),
        min: quantile(&sorted, 0, 1),
        max: quantile(&sorted, 1, 1),
        rounds: rounds.len(),
    }
}

/// The bootstrap 90 % interval of the median of `values`. The same values and seed give the same interval.
#[must_use]
pub fn interval(values: &[f64], seed: u64) -> Interval {
    let mut rng = Rng::new(seed);
    let count = u64::try_from(values.len()).unwrap_or(0);
    let mut draw = || {
        let picked: Vec<f64> = (0..count).filter_map(|_| values.get(idx(rng.below(count))).copied()).collect();
        quantile(&sorted(&picked), 1, 2)
    };
    let medians: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
    let medians = sorted(&medians);
    Interval { low: quantile(&medians, 1, 20), median: summarize(values).median, high: quantile(&medians, 19, 20) }
}

/// The interval of `left[i] / right[i]`: rounds that ran side by side are divided before anything is summed up, so that
/// what slows both leaves the ratio alone.
#[must_use]
pub fn paired_ratio(left: &[f64], right: &[f64], seed: u64) -> Interval {
    let ratios: Vec<f64> = left.iter().zip(right).filter(|(_, b)| **b > 0.0).map(|(a, b)| a / b).collect();
    interval(&ratios, seed)
}

/// The interval of `left[i] - right[i]`.
#[must_use]
pub fn paired_difference(left: &[f64], right: &[f64], seed: u64) -> Interval {
    let differences: Vec<f64> = left.iter().zip(right).map(|(a, b)| a - b).collect();
    interval(&differences, seed)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value `part` of `whole` up a sorted list; between two values, their mean.
fn quantile(sorted: &[f64], part: usize, whole: usize) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let scaled = last * part;
    let (at, rest) = (scaled / whole, scaled % whole);
    let value = |index: usize| sorted.get(index).copied().unwrap_or_default();
    if rest == 0 { value(at) } else { f64::midpoint(value(at), value(at + 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        assert_eq!(summarize(&[3.0, 1.0, 2.0]), Summary { median: 2.0, min: 1.0, max: 3.0, rounds: 3 });
        assert_eq!(summarize(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(summarize(&[]), Summary { median: 0.0, min: 0.0, max: 0.0, rounds: 0 });
    }

    #[test]
    fn a_paired_ratio_is_steady_where_both_sides_swing_together() {
        let right: Vec<f64> = (1..=20).map(f64::from).collect();
        let left: Vec<f64> = right.iter().map(|value| value * 0.9).collect();
        let ratio = paired_ratio(&left, &right, 1);
        assert!((ratio.low - 0.9).abs() < 1e-9 && (ratio.high - 0.9).abs() < 1e-9);
    }

    #[test]
    fn the_interval_holds_the_median_and_is_the_same_for_the_same_seed() {
        let values: Vec<f64> = (0..31_u32).map(|i| f64::from(i * 7 % 31)).collect();
        let interval_1 = interval(&values, 9);
        assert!(interval_1.low <= 15.0 && 15.0 <= interval_1.high && interval_1.low < interval_1.high);
        assert_eq!(interval_1, interval(&values, 9));
    }
}
