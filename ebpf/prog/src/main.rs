//! The eBPF programs of Sluice, in one object. Each program is a module; what user space must know is in `ebpf-layout`.
#![no_std]
#![no_main]

mod packet;
mod steer;

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
