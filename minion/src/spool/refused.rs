//! The returns that a master refused. They stay in the spool, for the operator and for a master that asks.

use std::io;

use saline_messages::{Jid, Return};
use saline_modules::RefusedReturns;

use super::index::{self, SpooledJob};
use super::record::Record;
use super::{Spool, lock};

impl Spool {
    /// Sets a return aside that the master refused for good. It stays in the spool and is not sent again
    /// unless the master asks for it.
    pub fn set_aside(&self, jid: &Jid) {
        let mut file = lock(&self.file);
        let range = match lock(&self.index).entries.get(jid).map(|e| e.state.clone()) {
            Some(SpooledJob::Spooled(range, _)) => Ok(range),
            Some(SpooledJob::Unspooled(returned)) => file.append(&Record::Return(returned), true),
            _ => return,
        };
        let noted = range.and_then(|range| {
            file.append(&Record::Aside { jid: jid.clone() }, false)?;
            Ok(range)
        });
        match noted {
            Ok(range) => lock(&self.index).set(jid, None, SpooledJob::Aside(range)),
            // It stays where it is, and the next start sends it again.
            Err(error) => tracing::warn!("job {jid}: its return is not set aside: {error}"),
        }
    }

    /// Sends a return again that was set aside, since the master asks for the job.
    pub fn take_up(&self, jid: &Jid) {
        let mut index = lock(&self.index);
        if let Some(SpooledJob::Aside(range)) = index.entries.get(jid).map(|e| e.state.clone()) {
            index.set(jid, None, SpooledJob::Spooled(range, None));
            drop(index);
            self.returned.notify_one();
        }
    }

    /// Forgets a return that was set aside. Its job counts as run from then on. Returns false when there is none.
    ///
    /// # Errors
    /// When the disk does not take it; the return is kept.
    pub fn forget_refused(&self, jid: &Jid) -> io::Result<bool> {
        let mut file = lock(&self.file);
        let is_aside = |entry: &index::Entry| matches!(entry.state, SpooledJob::Aside(_));
        if !lock(&self.index).entries.get(jid).is_some_and(is_aside) {
            return Ok(false);
        }
        file.append(&Record::Done { jid: jid.clone() }, false)?;
        lock(&self.index).done(jid, None);
        Ok(true)
    }

    /// Returns the jobs whose returns a master refused, the oldest first.
    pub fn aside(&self) -> Vec<Jid> {
        let index = lock(&self.index);
        let aside = |entry: &index::Entry| matches!(entry.state, SpooledJob::Aside(_));
        let found = index.entries.iter().filter(|(_, entry)| aside(entry));
        found.map(|(jid, _)| jid.clone()).collect()
    }
}

impl RefusedReturns for Spool {
    fn jobs(&self) -> Vec<Jid> {
        self.aside()
    }

    fn read(&self, jid: &Jid) -> io::Result<Option<Return>> {
        Self::read(self, jid)
    }

    fn forget(&self, jid: &Jid) -> io::Result<bool> {
        self.forget_refused(jid)
    }
}
