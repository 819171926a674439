//! A merge outside of any split.
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
    program.operation("read", |b| {
        b.on(disk.any()).run(Disk::read).merge(compute, |_: &u64| 0u64, |sum, _| *sum += 1)
    });
    let _ = Compute::sum;
}
