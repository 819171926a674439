//! Medians and quartiles of a few dozen values.

/// The median.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Half the range between the quartiles, relative to the median.
pub fn spread(values: &[f64]) -> f64 {
    (quantile(values, 0.75) - quantile(values, 0.25)) / 2.0 / median(values)
}

/// The quantile at a share of the values; interpolated between two values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    // Turns are counted in hundreds: every index is exact as a float, and the cast is in range.
    let place = share * last as f64;
    #[expect(clippy::cast_possible_truncation, reason = "it is at most `last`")]
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_spread_is_half_the_range_of_the_quartiles() {
        // Quartiles of 1 to 9 are 3 and 7.
        let values: Vec<f64> = (1..=9).rev().map(f64::from).collect();
        assert_eq!(spread(&values), 2.0 / 5.0);
        assert_eq!(spread(&[2.0; 15]), 0.0);
        // Between two values: 1.75 and 3.25.
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0]), 0.75 / 2.5);
    }

    #[test]
    fn one_wild_turn_changes_nothing() {
        let mut values = vec![1.0; 15];
        values[7] = 1000.0;
        assert_eq!((median(&values), spread(&values)), (1.0, 0.0));
    }
}
