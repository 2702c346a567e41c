//! Attaches the device named by its argument and holds it until it is killed or its standard input ends.

use std::{
    io::{Read, Write, stdin, stdout},
    num::NonZeroU32,
};

use dataplane::port::{
    Port,
    afxdp::{Options, Steer, attach},
    umem::{Borrower, Umem},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = std::env::args().nth(1).ok_or("usage: hold_port DEVICE")?;
    let options = Options { promiscuous: true, ..Options::new(&device, Steer::All) };
    let mut umem = Umem::new(256)?;
    let (mut port, attachment) = attach(&options, &umem.area(), Borrower(NonZeroU32::MIN))?;
    port.rx(&mut umem, &mut Vec::new(), 0);
    writeln!(stdout(), "attached {}", attachment.facts().ifindex)?;
    stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
