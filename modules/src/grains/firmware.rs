//! The grains that the firmware tells of the machine. Root alone can read some of it.

use std::path::Path;

use super::{Entries, add, read};

/// The grains, and the files of the kernel with their values.
const FILES: [(&str, &str); 8] = [
    ("biosreleasedate", "bios_date"),
    ("biosvendor", "bios_vendor"),
    ("biosversion", "bios_version"),
    ("boardname", "board_name"),
    ("manufacturer", "sys_vendor"),
    ("productname", "product_name"),
    ("serialnumber", "product_serial"),
    ("uuid", "product_uuid"),
];

/// The last byte of this variable of EFI says whether secure boot is on.
const SECURE_BOOT: &str =
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

pub fn add_to(found: &mut Entries) {
    for (grain, file) in FILES {
        let value = read(&format!("/sys/class/dmi/id/{file}"));
        if !value.is_empty() {
            // As programs print it.
            let value = if grain == "uuid" {
                value.to_lowercase()
            } else {
                value
            };
            add(found, grain, value);
        }
    }
    let is_secure = std::fs::read(SECURE_BOOT).is_ok_and(|bytes| bytes.last() == Some(&1));
    add(
        found,
        "efi",
        Path::new("/sys/firmware/efi/systab").exists()
            || Path::new("/sys/firmware/efi/efivars").exists(),
    );
    add(found, "efi-secure-boot", is_secure);
}
