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
    let (kind, subtype) = virtualisation();
    add(found, "virtual", kind);
    if let Some(subtype) = subtype {
        add(found, "virtual_subtype", subtype);
    }
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

/// The kinds of containers, as the program that starts one names itself, and as Salt does.
const CONTAINERS: [(&str, &str); 7] = [
    ("docker", "Docker"),
    ("podman", "Podman"),
    ("lxc", "LXC"),
    ("lxc-libvirt", "LXC"),
    ("systemd-nspawn", "systemd-nspawn"),
    ("kube", "Kubernetes"),
    ("oci", "OCI"),
];

/// Detects virtualisation from the firmware's names and the marks of containers, without running a
/// program. Returns its kind, and for a container what made it.
fn virtualisation() -> (&'static str, Option<String>) {
    if let Some(container) = container() {
        return ("container", Some(container));
    }
    let product = read("/sys/class/dmi/id/product_name");
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    let says = |text: &str| product.contains(text) || vendor.contains(text);
    let of = |subtype: &str| Some(subtype.to_owned());
    if says("VMware") {
        ("VMware", None)
    } else if says("VirtualBox") {
        ("VirtualBox", None)
    } else if says("Microsoft Corporation") && product.contains("Virtual Machine") {
        ("HyperV", None)
    } else if read("/sys/hypervisor/type") == "xen" {
        match read("/proc/xen/capabilities").contains("control_d") {
            true => ("xen", of("Xen Dom0")),
            false => ("xen", of("Xen DomU")),
        }
    } else if says("Amazon EC2") {
        ("kvm", of("Amazon EC2"))
    } else if says("Google") {
        ("kvm", of("Google Cloud"))
    } else if says("OpenStack") {
        ("kvm", of("OpenStack"))
    } else if says("KVM") || says("QEMU") {
        ("kvm", None)
    } else {
        ("physical", None)
    }
}

/// Returns what made the container that this minion runs in; none outside of one.
fn container() -> Option<String> {
    if Path::new("/.dockerenv").exists() {
        return Some("Docker".to_owned());
    }
    if Path::new("/run/.containerenv").exists() {
        return Some("Podman".to_owned());
    }
    let told = match read("/run/systemd/container") {
        text if text.is_empty() => {
            let environment = std::fs::read("/proc/1/environ").unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            let value = variables.find_map(|one| one.strip_prefix(b"container="))?;
            String::from_utf8_lossy(value).into_owned()
        }
        text => text,
    };
    let known = CONTAINERS.iter().find(|(name, _)| *name == told);
    Some(known.map_or(told, |(_, shown)| (*shown).to_owned()))
}
