//! A split at the beginning, before any thread has the token.
use pario_flow::Program;

struct Disk;
impl Disk {
    fn read(&mut self, sector: u64) -> Vec<u8> {
        vec![0; sector as usize]
    }
}
struct Compute;
impl Compute {
    fn sum(&mut self, bytes: Vec<u8>) -> u64 {
        bytes.len() as u64
    }
}

fn main() {
    let mut program = Program::new("wrong");
    let disk = program.pool("Disk", 2, |_| Disk);
    let compute = program.thread("Compute", || Compute);
    program.operation("count", |b| {
        b.split_while(|n: &mut u64| n.checked_sub(1))
            .on(disk.any())
            .run(Disk::read)
            .merge(compute, |_| 0u64, |sum, bytes| *sum += bytes.len() as u64)
    });
    let _ = Compute::sum;
}
