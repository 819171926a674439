//! The operations that the nodes of tests know.

use pario::operation::{
    ExtentBytes, ExtentInput, ExtentOutput, NeighbourRequest, Operation, OperationCall,
    OperationRegistry, OperationTask, Scratch,
};
use pario::operation::{each, fold};
use pario::{ExtentIndex, ExtentPlacement, SubfileIndex};

/// Adds the operations to a registry.
pub fn add_to(registry: &OperationRegistry) {
    registry.add(
        "sum",
        each(|more: &u64, input: &ExtentInput<'_>| {
            let sum: u64 = input.body().iter().map(|byte| u64::from(*byte)).sum();
            Ok::<_, String>((input.header().to_vec(), sum + more))
        }),
    );
    registry.add(
        "places",
        fold(
            |_: &(), places: &mut Vec<(u32, u64)>, input: &ExtentInput<'_>| {
                places.push((input.placement.subfile.0, input.placement.extent.0));
                Ok::<(), String>(())
            },
            |places, more| places.extend(more),
        ),
    );
    registry.add(
        "fail at",
        each(|(extent, is_panic): &(u64, bool), input: &ExtentInput<'_>| {
            if input.placement.extent.0 == *extent {
                assert!(!is_panic, "the test asks for a panic");
                return Err("the test asks for an error");
            }
            Ok(())
        }),
    );
    registry.add("long", each(|len: &usize, _: &ExtentInput<'_>| Ok::<_, String>(vec![1u8; *len])));
    registry.add("chain", Chain);
    registry.add("astray", Astray);
}

/// Processes every extent up to a number, of every subfile, absent ones included, with the ends of
/// the bodies of the next two.
struct Chain;

struct ChainTask {
    subfiles: u32,
    extents: u64,
    end: u8,
}

impl Operation for Chain {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let (extents, end) = call.decode()?;
        let subfiles = u32::try_from(call.subfiles()).map_err(|error| error.to_string())?;
        Ok(Box::new(ChainTask { subfiles, extents, end }))
    }

    fn cut(&self, selection: &[u8], extent: Option<ExtentBytes<'_>>) -> Result<Vec<u8>, String> {
        let body = extent.map_or(&[][..], |extent| extent.body);
        let end = body.len().saturating_sub(usize::from(selection[0]));
        Ok(body[end..].to_vec())
    }
}

/// The placement after a placement, over all subfiles in turn.
pub fn next(place: ExtentPlacement, subfiles: u32) -> ExtentPlacement {
    let subfile = place.subfile.0 + 1;
    ExtentPlacement {
        subfile: SubfileIndex(subfile % subfiles),
        extent: ExtentIndex(place.extent.0 + u64::from(subfile / subfiles)),
    }
}

impl OperationTask for ChainTask {
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

    fn includes_absent(&self) -> bool {
        true
    }

    fn neighbours(&self, placement: ExtentPlacement) -> Result<Vec<NeighbourRequest>, String> {
        let first = next(placement, self.subfiles);
        let second = next(first, self.subfiles);
        let request = |placement| NeighbourRequest { placement, selection: vec![self.end] };
        Ok([first, second].map(request).to_vec())
    }

    fn process(&self, input: &ExtentInput<'_>, _: &mut Scratch) -> Result<ExtentOutput, String> {
        let mut body = input.body().to_vec();
        for neighbour in input.neighbours {
            body.extend_from_slice(neighbour);
        }
        let header = vec![u8::from(input.extent.is_some())];
        Ok(ExtentOutput::Extent { placement: input.placement, header, body })
    }
}

/// Writes extents to a subfile that no file has.
struct Astray;

impl Operation for Astray {
    fn prepare(&self, _: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        Ok(Box::new(Astray))
    }
}

impl OperationTask for Astray {
    fn process(&self, input: &ExtentInput<'_>, _: &mut Scratch) -> Result<ExtentOutput, String> {
        let placement = ExtentPlacement { subfile: SubfileIndex(99), ..input.placement };
        Ok(ExtentOutput::Extent { placement, header: Vec::new(), body: Vec::new() })
    }
}
