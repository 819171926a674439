//! Which extents there are, and in which order and with which sizes they are used. It is pure:
//! the same size and seed give the same plan.

use super::content::{HEADER_LEN, MAX_BODY_LEN, Version};

/// Header and body of an extent at first.
pub const EXTENT_BYTES: u64 = 51 << 10;

/// The shortest body after a rewrite. With [`MAX_BODY_LEN`] the average stays about the same.
const MIN_BODY_LEN: usize = 8 << 10;

/// What is stored, and what is to happen to it.
#[derive(Debug)]
pub struct Plan {
    /// The newest version of each extent; none if it is deleted.
    versions: Vec<Option<Version>>,
    random: fastrand::Rng,
}

impl Plan {
    /// As many extents as make up `size_bytes`, all in their first version.
    pub fn new(size_bytes: u64, seed: u64) -> Self {
        let body_len = EXTENT_BYTES - HEADER_LEN as u64;
        let first = Version {
            generation: 0,
            body_len: u32::try_from(body_len).expect("an extent is small"),
        };
        let count = usize::try_from(Self::extents_in(size_bytes)).expect("it fits on a disk");
        Self { versions: vec![Some(first); count], random: fastrand::Rng::with_seed(seed) }
    }

    /// How many extents make up `size_bytes`.
    pub fn extents_in(size_bytes: u64) -> u64 {
        (size_bytes / EXTENT_BYTES).max(1)
    }

    /// The newest version of an extent; none if it is deleted.
    pub fn version(&self, extent: u64) -> Option<Version> {
        let place = usize::try_from(extent).expect("extents come from the plan");
        self.versions[place]
    }

    /// All extents that exist, in order.
    pub fn in_order(&self) -> Vec<u64> {
        let numbered = (0..).zip(&self.versions);
        numbered.filter_map(|(extent, version)| version.and(Some(extent))).collect()
    }

    /// All extents there ever were, in a random order; also the deleted ones.
    pub fn at_random(&mut self) -> Vec<u64> {
        let mut extents: Vec<u64> = (0..).take(self.versions.len()).collect();
        self.random.shuffle(&mut extents);
        extents
    }

    /// Gives a third of the extents a new version of another size, and says which.
    pub fn rewrite_a_third(&mut self) -> Vec<u64> {
        self.change(3, |version, random| {
            let body_len = loop {
                let len = random.usize(MIN_BODY_LEN..=MAX_BODY_LEN);
                let len = u32::try_from(len).expect("an extent is small");
                if len != version.body_len {
                    break len;
                }
            };
            Some(Version { generation: version.generation + 1, body_len })
        })
    }

    /// Deletes a tenth of the extents, and says which.
    pub fn delete_a_tenth(&mut self) -> Vec<u64> {
        self.change(10, |_, _| None)
    }

    /// Header and body of some extents; what is deleted has none.
    pub fn bytes(&self, extents: &[u64]) -> u64 {
        let versions = extents.iter().filter_map(|&extent| self.version(extent));
        versions.map(Version::bytes).sum()
    }

    /// Header and body of all extents.
    pub fn live_bytes(&self) -> u64 {
        let versions = self.versions.iter().flatten();
        versions.map(|version| version.bytes()).sum()
    }

    /// Changes one of `share` extents.
    fn change(
        &mut self,
        share: usize,
        mut change: impl FnMut(Version, &mut fastrand::Rng) -> Option<Version>,
    ) -> Vec<u64> {
        let mut extents = self.at_random();
        extents.truncate(self.versions.len() / share);
        for &extent in &extents {
            let place = usize::try_from(extent).expect("extents come from the plan");
            if let Some(version) = self.versions[place] {
                self.versions[place] = change(version, &mut self.random);
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_changes_what_it_says() {
        let mut plan = Plan::new(300 * EXTENT_BYTES + 5, 1);
        let before: Vec<_> = (0..300).map(|extent| plan.version(extent)).collect();
        assert_eq!(plan.in_order(), (0..300).collect::<Vec<_>>());
        assert_eq!(plan.bytes(&plan.in_order()), 300 * EXTENT_BYTES);

        let rewritten = plan.rewrite_a_third();
        assert_eq!(rewritten.len(), 100);
        for (extent, old) in (0..300).zip(&before) {
            let (old, new) = (old.unwrap(), plan.version(extent).unwrap());
            let changed = rewritten.contains(&extent);
            assert_eq!(new.generation > old.generation, changed, "{extent}");
            assert_eq!(new.body_len != old.body_len, changed, "{extent}");
        }

        let deleted = plan.delete_a_tenth();
        assert_eq!(deleted.len(), 30);
        assert!(deleted.iter().all(|&extent| plan.version(extent).is_none()));
        assert_eq!(plan.in_order().len(), 270);
        let mut all = plan.at_random();
        assert_ne!(all, (0..300).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..300).collect::<Vec<_>>());
    }

    #[test]
    fn a_seed_gives_the_same_plan_again() {
        let changes = |seed| {
            let mut plan = Plan::new(1 << 20, seed);
            (plan.at_random(), plan.rewrite_a_third(), plan.versions)
        };
        assert_eq!(changes(5), changes(5));
        assert_ne!(changes(5), changes(6));
    }
}
