//! Measurement in turns, so that other load on the machine affects all sides alike.

use std::time::Duration;

use anyhow::Result;

use crate::statistics::{median, spread};

/// Runs one turn of a side, and returns the time that counts.
pub type TurnRunner<'a> = &'a mut dyn FnMut() -> Result<Duration>;

/// The smallest number of turns of a figure.
pub const FEWEST_TURNS: usize = 15;

/// Lets the sides take turns, in an order that is reversed every time, after one turn that does not
/// count. Returns the seconds of each side, turn by turn.
pub fn rotate(turns: usize, sides: &mut [TurnRunner<'_>]) -> Result<Vec<Vec<f64>>> {
    assert!(turns >= FEWEST_TURNS, "{turns} turns are too few");
    let mut seconds = vec![Vec::with_capacity(turns); sides.len()];
    for side in sides.iter_mut() {
        side()?;
    }
    for turn in 0..turns {
        for place in 0..sides.len() {
            let which = if turn % 2 == 0 { place } else { sides.len() - 1 - place };
            seconds[which].push(sides[which]()?.as_secs_f64());
        }
    }
    Ok(seconds)
}

/// Lets two sides take turns.
pub fn alternate(turns: usize, ours: TurnRunner<'_>, theirs: TurnRunner<'_>) -> Result<Comparison> {
    let mut seconds = rotate(turns, &mut [ours, theirs])?.into_iter();
    let mut next = || seconds.next().expect("one for each side");
    Ok(Comparison::new(&next(), &next()))
}

/// The comparison of two sides over all turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The median time of our turns.
    pub ours_s: f64,
    /// The median time of their turns.
    pub theirs_s: f64,
    /// The median of their time over ours, turn by turn: above one, ours is faster.
    pub ratio: f64,
    /// Half the range between the quartiles of these ratios, relative to their median.
    pub spread: f64,
}

impl Comparison {
    /// Compares the seconds of two sides, turn by turn.
    pub fn new(ours_s: &[f64], theirs_s: &[f64]) -> Self {
        let both = ours_s.iter().zip(theirs_s);
        let ratios: Vec<f64> = both.map(|(ours, theirs)| theirs / ours).collect();
        Self {
            ours_s: median(ours_s),
            theirs_s: median(theirs_s),
            ratio: median(&ratios),
            spread: spread(&ratios),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn sides_alternate_and_the_first_turn_does_not_count() {
        let order = RefCell::new(String::new());
        let side = |name, mut millis: u64| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                // The turn that does not count is far slower.
                Ok(Duration::from_millis(std::mem::replace(&mut millis, 10)))
            }
        };
        let seconds = rotate(15, &mut [&mut side('a', 999), &mut side('b', 999)]).unwrap();
        assert_eq!(seconds, [vec![0.01; 15], vec![0.01; 15]]);
        assert!(order.borrow().starts_with("ab abbaabba".replace(' ', "").as_str()));
        assert_eq!(order.borrow().len(), 32);
    }

    #[test]
    fn the_ratio_is_taken_turn_by_turn() {
        // The machine slows down to a third, for both.
        let ours: Vec<f64> = (0..15).map(|turn| f64::from(1 + turn / 5)).collect();
        let theirs: Vec<f64> = ours.iter().map(|seconds| seconds * 0.5).collect();
        let compared = Comparison::new(&ours, &theirs);
        assert_eq!((compared.ratio, compared.spread), (0.5, 0.0));
        assert_eq!((compared.ours_s, compared.theirs_s), (2.0, 1.0));
    }

    #[test]
    fn an_error_ends_the_turns() {
        let mut turns = 0;
        let mut ours = || {
            turns += 1;
            anyhow::ensure!(turns < 4, "out of order");
            Ok(Duration::from_millis(1))
        };
        let mut theirs = || Ok(Duration::from_millis(1));
        assert!(alternate(15, &mut ours, &mut theirs).is_err());
        assert_eq!(turns, 4);
    }
}
