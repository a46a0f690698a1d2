//! `--rotate-identity`: orders the key that identifies the master from its next start on.

use std::io;

use saline_channel::PublicIdentity;
use saline_messages::KeyRequest;

use super::change::{Answer, NOT_CONFIRMED};
use super::{KeyCommand, NEXT_MASTERS, complain};
use crate::exit;
use crate::output::keys::{Heading, Line};
use crate::screen::Screen;

impl KeyCommand<'_> {
    /// Orders the next identity of the master, once the operator has confirmed it. Returns the exit code.
    pub(super) async fn rotate_identity(&self, screen: &mut Screen<'_>) -> io::Result<u8> {
        let reply = match self.store.ask(screen, KeyRequest::List).await {
            Ok(reply) => reply,
            Err(why) => return Ok(complain(screen, &why)),
        };
        if let Some(next) = reply.next_master {
            let next = PublicIdentity(next).fingerprint();
            self.say(screen, &format!(
                "The next identity of the master was made before: its fingerprint is {next}. Restart saline-master to take it \
                 over, or remove identity.next.key from the master's pki_dir to give it up."
            ))?;
            return Ok(exit::GOOD);
        }
        let present = PublicIdentity(reply.master).fingerprint();
        self.say(screen, &format!(
            "A new identity is going to take the place of {present} when saline-master starts again. The present one signs \
             it, and minions take it over when they connect."
        ))?;
        match self.confirm(screen, false).await? {
            Answer::Yes => {}
            Answer::No => return Ok(exit::GOOD),
            Answer::Nobody => {
                screen.note(NOT_CONFIRMED);
                return Ok(exit::FAILED);
            }
        }
        let reply = match self.store.ask(screen, KeyRequest::RotateIdentity).await {
            Ok(reply) => reply,
            Err(why) => return Ok(complain(screen, &why)),
        };
        let Some(next) = reply.next_master else {
            return Ok(complain(screen, "the master made no identity"));
        };
        let next = PublicIdentity(next).fingerprint();
        self.say(screen, &format!(
            "The next identity of the master has the fingerprint {next}. Restart saline-master to take it over, and back up \
             its pki_dir after that."
        ))?;
        if self.format.is_for_programs() {
            let line = Line {
                name: NEXT_MASTERS.to_owned(),
                detail: Some(next),
                remark: None,
            };
            self.print(screen, &vec![(Heading::Local, vec![line])])?;
        }
        Ok(exit::GOOD)
    }
}
