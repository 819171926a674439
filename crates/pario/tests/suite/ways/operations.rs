//! What the nodes of tests can do with extents.

use pario::operation::{Call, Operation, Outcome, Registry, Scratch, Seen, Stored, Task, Wanted};
use pario::operation::{each, fold};
use pario::{ExtentIndex, ExtentPlacement, SubfileIndex};

/// Adds them to those of a node.
pub fn add_to(registry: &Registry) {
    registry.add(
        "sum",
        each(|more: &u64, seen: &Seen<'_>| {
            let sum: u64 = seen.body().iter().map(|byte| u64::from(*byte)).sum();
            Ok::<_, String>((seen.header().to_vec(), sum + more))
        }),
    );
    registry.add(
        "places",
        fold(
            |_: &(), places: &mut Vec<(u32, u64)>, seen: &Seen<'_>| {
                places.push((seen.place.subfile.0, seen.place.extent.0));
                Ok::<(), String>(())
            },
            |places, more| places.extend(more),
        ),
    );
    registry.add(
        "fail at",
        each(|(extent, is_panic): &(u64, bool), seen: &Seen<'_>| {
            if seen.place.extent.0 == *extent {
                assert!(!is_panic, "as it was told to");
                return Err("it was told to");
            }
            Ok(())
        }),
    );
    registry.add("long", each(|len: &usize, _: &Seen<'_>| Ok::<_, String>(vec![1u8; *len])));
    registry.add("chain", Chain);
    registry.add("astray", Astray);
}

/// Shows every extent up to a number, of every subfile, there or not, with the ends of the bodies of
/// the next two.
struct Chain;

struct ChainTask {
    subfiles: u32,
    extents: u64,
    end: u8,
}

impl Operation for Chain {
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
        let (extents, end) = call.decode()?;
        let subfiles = u32::try_from(call.subfiles()).map_err(|error| error.to_string())?;
        Ok(Box::new(ChainTask { subfiles, extents, end }))
    }

    fn cut(&self, what: &[u8], extent: Option<Stored<'_>>) -> Result<Vec<u8>, String> {
        let body = extent.map_or(&[][..], |extent| extent.body);
        let end = body.len().saturating_sub(usize::from(what[0]));
        Ok(body[end..].to_vec())
    }
}

/// The place that follows.
pub fn next(place: ExtentPlacement, subfiles: u32) -> ExtentPlacement {
    let subfile = place.subfile.0 + 1;
    ExtentPlacement {
        subfile: SubfileIndex(subfile % subfiles),
        extent: ExtentIndex(place.extent.0 + u64::from(subfile / subfiles)),
    }
}

impl Task for ChainTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        let of = |extent| {
            let place = move |subfile| ExtentPlacement {
                subfile: SubfileIndex(subfile),
                extent: ExtentIndex(extent),
            };
            (0..self.subfiles).map(place)
        };
        Some((0..self.extents).flat_map(of).collect())
    }

    fn sees_absent(&self) -> bool {
        true
    }

    fn wants(&self, place: ExtentPlacement) -> Vec<Wanted> {
        let first = next(place, self.subfiles);
        let second = next(first, self.subfiles);
        [first, second].map(|place| Wanted { place, what: vec![self.end] }).to_vec()
    }

    fn see(&self, seen: &Seen<'_>, _: &mut Scratch) -> Result<Outcome, String> {
        let mut body = seen.body().to_vec();
        for neighbour in seen.neighbours {
            body.extend_from_slice(neighbour);
        }
        let header = vec![u8::from(seen.extent.is_some())];
        Ok(Outcome::Extent { place: seen.place, header, body })
    }
}

/// Makes extents for a subfile that no file has.
struct Astray;

impl Operation for Astray {
    fn prepare(&self, _: &Call<'_>) -> Result<Box<dyn Task>, String> {
        Ok(Box::new(Astray))
    }
}

impl Task for Astray {
    fn see(&self, seen: &Seen<'_>, _: &mut Scratch) -> Result<Outcome, String> {
        let place = ExtentPlacement { subfile: SubfileIndex(99), ..seen.place };
        Ok(Outcome::Extent { place, header: Vec::new(), body: Vec::new() })
    }
}
