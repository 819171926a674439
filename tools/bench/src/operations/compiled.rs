//! The operations of the modules, compiled into the node.

use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};

/// A threshold with the parameter `level=NUMBER`.
pub struct CompiledThreshold;

struct ThresholdTask(u8);

impl Operation for CompiledThreshold {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let text = std::str::from_utf8(call.parameters).map_err(|error| error.to_string())?;
        let level = text.strip_prefix("level=").ok_or("level is missing")?;
        Ok(Box::new(ThresholdTask(level.parse().map_err(|_| "level is not a number")?)))
    }
}

impl OperationTask for ThresholdTask {
    fn process(&self, input: &ExtentInput<'_>, _: &mut Scratch) -> Result<ExtentOutput, String> {
        let pixels = input.body().iter().map(|byte| if *byte > self.0 { 255 } else { 0 });
        Ok(ExtentOutput::Result(pixels.collect()))
    }
}

/// How often each byte occurs.
pub struct CompiledHistogram;

struct HistogramTask;

impl Operation for CompiledHistogram {
    fn prepare(&self, _: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        Ok(Box::new(HistogramTask))
    }
}

impl OperationTask for HistogramTask {
    fn scratch(&self) -> Scratch {
        Box::new([0_u64; 256])
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        if let Some(counts) = scratch.downcast_mut::<[u64; 256]>() {
            input.body().iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        Ok(ExtentOutput::Nothing)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let mut all = [0; 256];
        for counts in scratches.iter().filter_map(|scratch| scratch.downcast_ref::<[u64; 256]>()) {
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
        Ok(Some(all.iter().flat_map(|count| count.to_le_bytes()).collect()))
    }
}
