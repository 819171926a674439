//! A step whose input differs from the output of the step before it.
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
    program.operation("read twice", |b| {
        b.on(disk.thread(0)).run(Disk::read).on(disk.thread(1)).run(Disk::read)
    });
    let _ = compute;
}
