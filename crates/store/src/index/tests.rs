//! The tree against a plain map, with checkpoints in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{PAGE_BYTES, PageFault, PageKind, PageLink, PageLoad, Pages, Tree};
use crate::medium::{Medium, MediumFile, MediumOpenMode, MemoryMedium};

fn file() -> Arc<dyn MediumFile> {
    let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
    MemoryMedium::untracked().open("index", mode).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Remove(u64),
    Get(u64),
    Before(u64),
    After(u64),
    Fill(u64, u64),
    Clear(u64, u64),
    Checkpoint,
    Abandon,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop_oneof![0..400u64, 0..(1u64 << 48)];
    prop_oneof![
        6 => key.clone().prop_map(Step::Insert),
        4 => key.clone().prop_map(Step::Remove),
        2 => key.clone().prop_map(Step::Get),
        2 => key.clone().prop_map(Step::Before),
        2 => key.prop_map(Step::After),
        2 => (0..5_000u64, 0..2_000u64).prop_map(|(from, count)| Step::Fill(from, count)),
        2 => (0..5_000u64, 0..3_000u64).prop_map(|(from, count)| Step::Clear(from, count)),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Abandon),
        1 => Just(Step::Reopen),
    ]
}

struct TreeAndModel {
    file: Arc<dyn MediumFile>,
    kind: PageKind,
    pages: Pages,
    tree: Tree,
    model: BTreeMap<u64, u64>,
    durable: (Tree, u64, u64, PageLink),
    durable_model: BTreeMap<u64, u64>,
}

impl TreeAndModel {
    fn new(kind: PageKind) -> Self {
        let (file, tree) = (file(), Tree::new(kind, PageLink::NONE, 0).unwrap());
        let pages = Pages::new(file.clone(), 0, 0, 1 << 20);
        let durable = (tree, 0, 0, PageLink::NONE);
        let (model, durable_model) = (BTreeMap::new(), BTreeMap::new());
        Self { file, kind, pages, tree, model, durable, durable_model }
    }

    /// The value that the tree returns: as many words as the kind stores.
    fn expected(&self, stored: u64) -> [u64; 3] {
        match self.kind {
            PageKind::Extents => [stored, !stored, 7],
            PageKind::FreeByPosition => [stored, 0, 0],
            _ => [0; 3],
        }
    }

    fn insert(&mut self, key: u64, stored: u64) {
        let old = self.tree.insert(&mut self.pages, key, [stored, !stored, 7]).unwrap();
        assert_eq!(old, self.model.insert(key, stored).map(|old| self.expected(old)));
    }

    fn remove(&mut self, key: u64) {
        let old = self.tree.remove(&mut self.pages, key).unwrap();
        assert_eq!(old, self.model.remove(&key).map(|old| self.expected(old)));
    }

    fn step(&mut self, step: Step, stamp: u64) {
        match step {
            Step::Insert(key) => self.insert(key, stamp),
            Step::Remove(key) => self.remove(key),
            Step::Get(key) => {
                let found = self.tree.get(&mut self.pages, key, PageLoad::Wait).unwrap();
                assert_eq!(found, self.model.get(&key).map(|&old| self.expected(old)));
            }
            Step::Before(key) => {
                let found = self.tree.before(&mut self.pages, key, PageLoad::Wait).unwrap();
                let expected = self.model.range(..key).next_back();
                assert_eq!(found, expected.map(|(&key, &old)| (key, self.expected(old))));
            }
            Step::After(key) => {
                let found = self.tree.at_or_after(&mut self.pages, key, PageLoad::Wait).unwrap();
                let expected = self.model.range(key..).next();
                assert_eq!(found, expected.map(|(&key, &old)| (key, self.expected(old))));
            }
            Step::Fill(from, count) => (from..from + count).for_each(|key| self.insert(key, stamp)),
            Step::Clear(from, count) => (from..from + count).for_each(|key| self.remove(key)),
            Step::Checkpoint => {
                let frozen = self.pages.freeze();
                for (no, page) in &frozen.pages {
                    let mut bytes = Vec::new();
                    page.seal_into(&mut bytes);
                    self.file.write_all_at(&bytes, no * PAGE_BYTES as u64).unwrap();
                }
                self.durable = (self.tree, frozen.generation, frozen.end, frozen.free_list);
                self.durable_model = self.model.clone();
                self.pages.complete();
            }
            Step::Abandon => {
                self.pages.freeze();
                self.pages.abandon();
            }
            Step::Reopen => {
                let (tree, generation, end, free_list) = self.durable;
                self.pages = Pages::new(self.file.clone(), generation, end, 1 << 20);
                self.pages.load_free_list(free_list).unwrap();
                self.tree = tree;
                self.model = self.durable_model.clone();
            }
        }
    }

    fn check_all(&mut self) {
        let mut all = Vec::new();
        let mut each = |key, value| {
            all.push((key, value));
            true
        };
        self.tree.scan(&mut self.pages, 0, PageLoad::Wait, &mut each).unwrap();
        let expected: Vec<_> =
            self.model.iter().map(|(&key, &stored)| (key, self.expected(stored))).collect();
        assert_eq!(all, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_a_map(
        steps in prop::collection::vec(step(), 1..120),
        kind in prop_oneof![
            Just(PageKind::Extents),
            Just(PageKind::FreeByPosition),
            Just(PageKind::FreeBySize),
        ],
    ) {
        let mut world = TreeAndModel::new(kind);
        for (stamp, step) in steps.into_iter().enumerate() {
            world.step(step, stamp as u64);
        }
        world.check_all();
        world.step(Step::Reopen, 0);
        world.check_all();
    }
}

#[test]
fn pages_are_used_again() {
    let mut world = TreeAndModel::new(PageKind::Extents);
    for round in 0..50 {
        world.step(Step::Fill(0, 5_000), round);
        world.step(Step::Checkpoint, 0);
        world.step(Step::Clear(0, 4_990), 0);
        world.step(Step::Checkpoint, 0);
    }
    // 5,000 entries need 40 full pages; two checkpoints and half-full pages allow a few times that.
    let pages = world.file.len().unwrap() / PAGE_BYTES as u64;
    assert!(pages < 300, "{pages} pages");
}

#[test]
fn a_page_that_is_not_in_memory_is_requested() {
    let mut world = TreeAndModel::new(PageKind::Extents);
    world.step(Step::Fill(0, 500), 1);
    world.step(Step::Checkpoint, 0);
    world.step(Step::Reopen, 0);
    let mut asked = 0;
    let found = loop {
        match world.tree.get(&mut world.pages, 321, PageLoad::Refuse) {
            Ok(found) => break found,
            Err(PageFault::Absent(wanted)) => {
                asked += 1;
                let mut bytes = Box::new([0; PAGE_BYTES]);
                world.file.read_at(&mut bytes[..], wanted.position()).unwrap();
                world.pages.supply(wanted, bytes).unwrap();
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!((asked, found), (2, Some(world.expected(1))));
}
