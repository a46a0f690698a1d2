//! `--gen-keys`: the key of a minion that is set up before it ever ran.

use std::io;
use std::path::Path;

use saline_channel::{Identity, key_file};
use saline_messages::MinionId;

use crate::exit;
use crate::screen::Screen;

/// Writes a new key for the minion `id` into `folder`: `ID.pem`, which is private, and `ID.pub`. Returns the exit
/// code.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn generate(screen: &mut Screen<'_>, id: &MinionId, folder: &Path) -> io::Result<u8> {
    let private = folder.join(format!("{id}.pem"));
    let public = folder.join(format!("{id}.pub"));
    for path in [&private, &public] {
        if path.symlink_metadata().is_ok() {
            screen.note(format!(
                "ERROR: {} is there already: remove it, or choose another --gen-keys-dir",
                path.display()
            ));
            return Ok(exit::FAILED);
        }
    }
    let generated = Identity::generate().and_then(|identity| {
        identity.write(&private, 0o600)?;
        key_file::write(&public, &identity.public().to_pem(), 0o644)?;
        Ok(identity.public().fingerprint())
    });
    match generated {
        Ok(fingerprint) => {
            screen.line(format!(
                "Keys for minion {id} generated, fingerprint {fingerprint}.\n{} becomes identity.key in pki_dir of the \
                 minion (mode 0600), {} becomes minions/{id} in pki_dir of the master.",
                private.display(),
                public.display()
            ))?;
            Ok(exit::GOOD)
        }
        Err(error) => {
            screen.note(format!("ERROR: {error}"));
            Ok(exit::FAILED)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::screen::Printed;
    use saline_channel::PublicIdentity;

    #[test]
    fn keys_are_generated_once() {
        let folder = tempfile::tempdir().unwrap();
        let id = MinionId::parse("web1").unwrap();
        let mut printed = Printed::default();
        let code = generate(&mut printed.screen(&[]), &id, folder.path()).unwrap();
        assert_eq!(code, exit::GOOD);
        let private = folder.path().join("web1.pem");
        let identity = Identity::read(&private).unwrap().public();
        let public = std::fs::read_to_string(folder.path().join("web1.pub")).unwrap();
        assert_eq!(PublicIdentity::from_pem(&public).unwrap(), identity);
        let mode = private.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let shown = printed.shown().replace(&identity.fingerprint(), "FINGER");
        let place = folder.path().display().to_string();
        insta::assert_snapshot!(shown.replace(&place, "DIR"), @"
        --- stdout
        Keys for minion web1 generated, fingerprint FINGER.
        DIR/web1.pem becomes identity.key in pki_dir of the minion (mode 0600), DIR/web1.pub becomes minions/web1 in pki_dir of the master.
        --- stderr
        ");

        let mut printed = Printed::default();
        let code = generate(&mut printed.screen(&[]), &id, folder.path()).unwrap();
        assert_eq!(code, exit::FAILED, "{}", printed.shown());
        assert_eq!(Identity::read(&private).unwrap().public(), identity);
        let nowhere = folder.path().join("nowhere");
        let mut printed = Printed::default();
        let code = generate(&mut printed.screen(&[]), &id, &nowhere).unwrap();
        assert_eq!(code, exit::FAILED, "{}", printed.shown());
    }
}
