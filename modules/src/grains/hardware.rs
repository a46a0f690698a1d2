//! Processors, memory, and virtualisation.

use std::path::Path;

use saline_data::Value;

use super::{Entries, add, read};

pub fn add_to(found: &mut Entries) {
    let cpuinfo = read("/proc/cpuinfo");
    let processors = cpuinfo
        .lines()
        .filter(|l| l.starts_with("processor"))
        .count();
    let processors = if processors == 0 {
        std::thread::available_parallelism().map_or(1, usize::from)
    } else {
        processors
    };
    add(found, "num_cpus", processors as u64);
    let line = |names: &[&str]| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(name, _)| names.contains(&name.trim()));
        field.map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    add(
        found,
        "cpu_model",
        line(&["model name", "Processor", "cpu", "CPU part"]),
    );
    let flags = line(&["flags", "Features"]);
    add(found, "cpu_flags", Value::texts(flags.split_whitespace()));

    let meminfo = read("/proc/meminfo");
    add(found, "mem_total", mebibytes(&meminfo, "MemTotal"));
    add(found, "swap_total", mebibytes(&meminfo, "SwapTotal"));
    add(found, "virtual", virtualisation());
}

/// Returns a line of `/proc/meminfo`, which counts in KiB, in MiB.
fn mebibytes(meminfo: &str, name: &str) -> u64 {
    meminfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(known, _)| *known == name)
        .and_then(|(_, value)| value.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kibibytes| kibibytes / 1024)
}

/// Detects virtualisation from the firmware's names and the marks of containers, without running a
/// program.
fn virtualisation() -> &'static str {
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        return "container";
    }
    let product = read("/sys/class/dmi/id/product_name");
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    let says = |text: &str| product.contains(text) || vendor.contains(text);
    if says("VMware") {
        "VMware"
    } else if says("VirtualBox") {
        "VirtualBox"
    } else if says("Microsoft Corporation") && product.contains("Virtual Machine") {
        "HyperV"
    } else if read("/sys/hypervisor/type") == "xen" {
        "xen"
    } else if says("KVM") || says("QEMU") || says("Google") || says("Amazon EC2") {
        "kvm"
    } else {
        "physical"
    }
}
