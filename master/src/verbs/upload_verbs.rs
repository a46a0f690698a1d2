//! The verbs by which an operator hands in files for the minions of a job.

use saline_data::printable::number_of;
use saline_messages::{
    Arguments, OperatorReply, OrderWarning, UploadId, UploadReply, UploadRequest,
};

use crate::authorize::{About, Action, Principal, Reached};
use crate::decisions::{Decisions, Details};
use crate::fileserver::{FileServer, UploadError};

/// The function that fetches the files of an upload: who may run it somewhere may hand files in.
const FUNCTION: &str = "cp.recv";

/// Takes the files of uploads.
#[derive(Debug)]
pub struct UploadVerbs {
    pub(crate) decisions: Decisions,
    pub(crate) files: FileServer,
}

impl UploadVerbs {
    /// Carries out the request of a principal, if it may have that.
    pub(super) async fn carry_out(
        &self,
        principal: &Principal,
        request: UploadRequest,
    ) -> OperatorReply {
        let owner = principal.owner();
        let done = match request {
            UploadRequest::Begin {
                upload,
                files,
                bytes,
            } => match self.decide(principal, files, bytes).await {
                Ok(warnings) => {
                    let begun = self.files.begin_upload(owner, upload, files, bytes).await;
                    begun.map(|()| UploadReply::Begun(warnings))
                }
                Err(why) => return OperatorReply::NotAllowed(why),
            },
            UploadRequest::Part {
                upload,
                number,
                part,
            } => {
                if let Err(why) = self.authorize(principal) {
                    return OperatorReply::NotAllowed(why);
                }
                let taken = self.files.take_upload(&owner, upload, number, part).await;
                taken.map(UploadReply::Received)
            }
            UploadRequest::End { upload } => {
                // An API hands nothing in, so it owns nothing either.
                if let Principal::Api(_) = principal
                    && let Err(why) = self.authorize(principal)
                {
                    return OperatorReply::NotAllowed(why);
                }
                self.end(principal, &owner, upload).await
            }
        };
        match done {
            Ok(reply) => OperatorReply::Upload(reply),
            Err(UploadError::Refused(why)) => OperatorReply::Failed(why.to_string()),
            Err(error) => OperatorReply::Invalid(error.to_string()),
        }
    }

    /// Removes an upload. Its owner may do that also when it may hand nothing in any more.
    async fn end(
        &self,
        principal: &Principal,
        owner: &str,
        upload: UploadId,
    ) -> Result<UploadReply, UploadError> {
        tracing::debug!("{}: an upload ends", principal.log_name());
        self.files.end_upload(owner, upload).await?;
        Ok(UploadReply::Ended)
    }

    /// Decides about a part of an upload, whose beginning has a line in the audit file.
    fn authorize(&self, principal: &Principal) -> Result<(), String> {
        let arguments = Arguments::default().pack();
        let authorizer = &self.decisions.authorizer;
        let decided = authorizer.authorize(principal, Action::UploadFiles, about(&arguments));
        decided.map(drop).map_err(|refusal| refusal.line)
    }

    /// Decides about an upload, and has it in the audit file. Returns what the operator is warned of.
    async fn decide(
        &self,
        principal: &Principal,
        files: u32,
        bytes: u64,
    ) -> Result<Vec<OrderWarning>, String> {
        let arguments = Arguments::default().pack();
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let details = Details {
            subject: Some(format!(
                "{} of {bytes} bytes for {FUNCTION}",
                number_of(files, "file")
            )),
            ..Details::default()
        };
        let about = about(&arguments);
        let decided = self
            .decisions
            .decide(principal, Action::UploadFiles, about, details);
        Ok(decided.await?.synced().await)
    }
}

fn about(arguments: &saline_messages::PackedArguments) -> About<'_> {
    About::Function {
        fun: FUNCTION,
        arguments,
        minions: Reached::NONE,
        job: None,
    }
}
