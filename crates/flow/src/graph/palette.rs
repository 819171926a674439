//! The colours of threads: the same thread has the same colour in every picture.

use std::collections::{BTreeMap, BTreeSet};

/// The background, line and text colours of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tint {
    pub(crate) fill: &'static str,
    pub(crate) line: &'static str,
    pub(crate) text: &'static str,
}

/// The colours of parts without a thread.
pub(crate) const NEUTRAL: Tint = tint("#f3f4f6", "#8b93a0", "#4b5563");

/// The colour of names.
pub(crate) const INK: &str = "#1f2937";
/// The colour of explanations.
pub(crate) const SOFT_INK: &str = "#6b7280";
/// The colour of the lines between parts.
pub(crate) const LINE_COLOUR: &str = "#4b5563";
/// The colour of frames and grids.
pub(crate) const HAIRLINE: &str = "#d9dde3";
/// The background colour.
pub(crate) const PAPER: &str = "#ffffff";

const TINTS: [Tint; 12] = [
    tint("#e3edfb", "#4a7fc9", "#1f4a86"),
    tint("#fdeedd", "#d68a3a", "#8a4d0f"),
    tint("#e2f3e6", "#4b9e64", "#1f6135"),
    tint("#efe7f9", "#8a68c4", "#53358a"),
    tint("#fbe5e5", "#cd5f5f", "#8c2a2a"),
    tint("#dff3f2", "#3f9c98", "#155e5b"),
    tint("#faf3d6", "#bf9f2c", "#6f590c"),
    tint("#fbe6f1", "#c9649b", "#86295c"),
    tint("#dff1fa", "#3e97c0", "#13587a"),
    tint("#f1f3da", "#94a03a", "#5a6310"),
    tint("#e6e7fa", "#6a70cf", "#343a92"),
    tint("#f3eae2", "#a37b56", "#64432a"),
];

const fn tint(fill: &'static str, line: &'static str, text: &'static str) -> Tint {
    Tint { fill, line, text }
}

/// The colours of the threads of one picture.
///
/// A hash of the name chooses the colour. If two names of one picture get the same colour, the
/// second in alphabetical order takes the next free one.
#[derive(Debug)]
pub(crate) struct Palette {
    tints: BTreeMap<String, Tint>,
}

impl Palette {
    /// Assigns a colour to each thread; the threads of a pool share one.
    pub(crate) fn new<'a>(threads: impl IntoIterator<Item = &'a str>) -> Palette {
        let names: BTreeSet<&str> = threads.into_iter().map(pool_of).collect();
        let mut taken = BTreeSet::new();
        let mut tints = BTreeMap::new();
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let first = preferred(name);
            let number = (0..TINTS.len())
                .map(|step| (first + step) % TINTS.len())
                .find(|number| !taken.contains(number))
                .unwrap_or(first);
            taken.insert(number);
            tints.insert(name.to_owned(), TINTS[number]);
        }
        Palette { tints }
    }

    /// Returns the colours of a thread; neutral if `new` did not get its name.
    pub(crate) fn tint(&self, thread: &str) -> Tint {
        self.tints.get(pool_of(thread)).copied().unwrap_or(NEUTRAL)
    }
}

/// Returns the pool of a thread: `Disk` for `Disk[3]` and `Disk[·]`.
fn pool_of(thread: &str) -> &str {
    thread.split('[').next().unwrap_or(thread).trim()
}

/// Returns the preferred colour of a name, by FNV-1a.
fn preferred(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The upper bits are better mixed than the lower ones.
    usize::try_from((hash >> 40) % TINTS.len() as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_pool_share_their_colour() {
        let palette = Palette::new(["Disk[0]", "Disk[·]", "Client"]);
        assert_eq!(palette.tint("Disk[0]"), palette.tint("Disk[7]"));
        assert_ne!(palette.tint("Disk[0]"), palette.tint("Client"));
        assert_eq!(palette.tint("Nobody"), NEUTRAL);
        assert_eq!(palette.tint(""), NEUTRAL);
    }

    #[test]
    fn twelve_threads_have_twelve_colours() {
        let names: Vec<String> = (0..12).map(|number| format!("Stage{number}")).collect();
        let palette = Palette::new(names.iter().map(String::as_str));
        let lines: BTreeSet<_> = names.iter().map(|name| palette.tint(name).line).collect();
        assert_eq!(lines.len(), 12);
    }

    #[test]
    fn colours_do_not_depend_on_the_picture() {
        let one = Palette::new(["Client"]);
        let many = Palette::new(["Client", "Disk[0]"]);
        assert_eq!(one.tint("Client"), many.tint("Client"));
    }
}
