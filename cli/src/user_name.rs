//! The user who asks. For the record only: it gives no rights.

/// Returns the user of this process as Salt names it: `sudo_NAME` behind sudo.
pub(crate) fn current() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let sudo = std::env::var("SUDO_USER").unwrap_or_default();
    name(uid, &sudo, &accounts)
}

fn name(uid: u32, sudo: &str, accounts: &str) -> String {
    if uid == 0 && !sudo.is_empty() && sudo != "root" {
        return format!("sudo_{sudo}");
    }
    accounts
        .lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
        })
        .unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_as_salt_names_them() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbad\n";
        assert_eq!(name(0, "", accounts), "root");
        assert_eq!(name(0, "ann", accounts), "sudo_ann");
        assert_eq!(name(1000, "root", accounts), "ann");
        assert_eq!(name(7, "", accounts), "7");
    }
}
