//! The two bodies of an if-else return different token types.
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
        b.on(compute).if_else(
            |n: &u64| *n > 0,
            |b| b.on(disk.any()).run(Disk::read),
            |b| b.on(disk.any()).run(Disk::read).on(compute).run(Compute::sum),
        )
    });
}
