//! The verbs of users who log in: log in, log out, and act with the token of a login.

use std::sync::Arc;
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_messages::{
    ActAsRequest, KeyRequest, LoggedIn, LoginReply, LoginRequest, LoginToken, OperatorReply,
    OperatorRequest, RefusedVerb, RunnerRequest, TokenRequest, decode,
};
use saline_protocol::transport::Context;

use super::netapi_clients;
use crate::authorize::{About, Action, ExternalUser, Principal};
use crate::clock::MasterClock;
use crate::decisions::{Decisions, Details};
use crate::jobs::StoreError;
use crate::logins::{Checked, Credentials, Login, LoginOutcome, LoginStore, NewLogin};
use crate::settings::LiveSettings;
use crate::wire_time::milliseconds;

/// The longest name of a user, in bytes.
const MAX_NAME: usize = 255;

/// The delay after which a login comes again during whose check logins were revoked.
const REVOKED_DELAY: Duration = Duration::from_millis(100);

/// Logs users in and out, and finds out in whose name a request is.
#[derive(Debug)]
pub struct LoginVerbs {
    pub(crate) logins: Arc<LoginStore>,
    pub(crate) credentials: Credentials,
    pub(crate) settings: LiveSettings,
    pub(crate) decisions: Decisions,
    pub(crate) context: Context,
    pub(crate) clock: MasterClock,
}

/// The reason why a request in the name of a user is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotOpened {
    /// The token is not valid.
    NotLoggedIn,
    /// The principal may not bring it, or the user may not have it in this way: one line.
    NotAllowed(String),
    /// The request cannot be decoded.
    Malformed,
}

impl From<NotOpened> for OperatorReply {
    fn from(reason: NotOpened) -> Self {
        match reason {
            NotOpened::NotLoggedIn => Self::NotLoggedIn,
            NotOpened::NotAllowed(why) => Self::NotAllowed(why),
            NotOpened::Malformed => Self::Refused(RefusedVerb::Malformed),
        }
    }
}

impl LoginVerbs {
    /// Logs a user in, if the principal may act for users, and the name and the password are right.
    pub(super) async fn log_in(
        &self,
        principal: &Principal,
        request: LoginRequest,
    ) -> Result<OperatorReply, StoreError> {
        if let Err(why) = self.may_act_for_users(principal) {
            return Ok(OperatorReply::NotAllowed(why));
        }
        // Before the settings and the password are looked at.
        let begun = self.logins.revocations();
        let access = self.settings.access();
        if !access.external_auth.names_anybody() {
            return Ok(OperatorReply::NotAllowed(format!(
                "{principal} may not log in a user: external_auth of the master's configuration names nobody"
            )));
        }
        let source = principal.owner();
        let checked = self
            .credentials
            .check(&access.external_auth, &source, &request);
        let (way, groups) = match checked.await {
            Checked::Right { way, groups } => (way, groups),
            Checked::Wrong => return Ok(self.refuse(principal, &request).await),
            Checked::Later(delay) => return Ok(OperatorReply::Login(LoginReply::later(delay))),
        };
        let rules = access.external_rules(way, &request.user, &groups);
        if rules.is_empty() || !is_name(&request.user) {
            return Ok(self.refuse(principal, &request).await);
        }
        let permissions = rules.iter().map(|rule| rule.written.clone()).collect();
        let permissions = Packed::pack(&Value::List(permissions));
        let subject = subject(&request);
        if let Err(why) = self.decisions.note_login(principal, subject, true).await {
            return Ok(OperatorReply::Failed(why));
        }
        let new = NewLogin {
            token: request.token,
            user: request.user.clone(),
            way,
            groups,
            valid_ms: milliseconds(access.external_auth.token_expire),
        };
        let (logins, now) = (Arc::clone(&self.logins), self.clock.now());
        let made = self
            .context
            .spawn_blocking(move || logins.make(new, begun, now));
        let Ok(made) = made.await else {
            return Ok(OperatorReply::Failed(
                "the store of logins failed".to_owned(),
            ));
        };
        let login = match made? {
            LoginOutcome::LoggedIn(login) => login,
            // Nobody reads the reply to a login that was given up.
            LoginOutcome::TokenTaken | LoginOutcome::Ended => {
                return Ok(self.refuse(principal, &request).await);
            }
            LoginOutcome::Revoked => {
                // The line above says that the user is logged in.
                let _ = self.refuse(principal, &request).await;
                return Ok(OperatorReply::busy(REVOKED_DELAY));
            }
        };
        tracing::info!(
            "{}: user {} is logged in by {way}",
            principal.log_name(),
            login.user
        );
        Ok(OperatorReply::Login(LoginReply::LoggedIn(LoggedIn {
            start: login.made,
            expire: login.until,
            permissions,
        })))
    }

    /// Ends the login of a token, if there is one.
    pub(super) async fn log_out(
        &self,
        principal: &Principal,
        token: LoginToken,
    ) -> Result<OperatorReply, StoreError> {
        if let Err(why) = self.may_act_for_users(principal) {
            return Ok(OperatorReply::NotAllowed(why));
        }
        let logins = Arc::clone(&self.logins);
        let ended = self.context.spawn_blocking(move || logins.end(&token));
        let Ok(ended) = ended.await else {
            return Ok(OperatorReply::Failed(
                "the store of logins failed".to_owned(),
            ));
        };
        if let Some(login) = ended? {
            let details = Details {
                subject: Some(format!("user {}", login.user)),
                ..Details::default()
            };
            let rule = "who has the token of a login may end it";
            let noted = self.decisions.note_end(principal, "log out", rule, details);
            // The reply to a logout has no warnings.
            drop(noted.await);
            tracing::info!(
                "{}: user {} is logged out",
                principal.log_name(),
                login.user
            );
        }
        Ok(OperatorReply::LoggedOut)
    }

    /// Returns the user in whose name a request is, and the request.
    ///
    /// # Errors
    /// When the principal may not act for users, the token is not valid, or the request is none that a user may have in this way.
    pub(super) fn open(
        &self,
        principal: &Principal,
        request: &ActAsRequest,
    ) -> Result<(Principal, OperatorRequest), NotOpened> {
        self.may_act_for_users(principal)
            .map_err(NotOpened::NotAllowed)?;
        let login = self.login(&request.token).ok_or(NotOpened::NotLoggedIn)?;
        let user = Principal::ExternalUser(Arc::new(ExternalUser {
            name: login.user.clone(),
            way: login.way,
            groups: login.groups.clone(),
            through: principal.to_string(),
        }));
        let Ok(mut asked) = decode::<OperatorRequest>(&request.request) else {
            return Err(NotOpened::Malformed);
        };
        // The master knows who asks, whatever the program says that brings the request.
        match &mut asked {
            OperatorRequest::Publish(order) => order.user.clone_from(&login.user),
            OperatorRequest::Runner(RunnerRequest::Run(call)) => call.user.clone_from(&login.user),
            _ => {}
        }
        let refuse = |why: String| Err(NotOpened::NotAllowed(format!("{user} may not: {why}")));
        match &asked {
            OperatorRequest::Login(_) | OperatorRequest::Logout(_) | OperatorRequest::ActAs(_) => {
                return refuse(format!("{} stands in no request of a user", asked.name()));
            }
            _ => {}
        }
        // Whom the blacklist names reads nothing either.
        let authorizer = &self.decisions.authorizer;
        if let Err(refusal) = authorizer.authorize(&user, Action::Ping, About::Nothing) {
            return Err(NotOpened::NotAllowed(refusal.line));
        }
        if matches!(principal, Principal::Api(_)) && makes_rights(&asked) {
            return refuse(format!(
                "{} makes rights that outlive the key of an API, so none goes through one",
                asked.name()
            ));
        }
        let access = self.settings.access();
        let enabled = &access.external_auth.enabled_clients;
        // Or a taken host would go round what the master enables.
        if matches!(principal, Principal::Api(_))
            && request.client.is_none()
            && netapi_clients::is_order(&asked)
        {
            return refuse(format!(
                "an API names the client by which a user orders, and this {} has none",
                asked.name()
            ));
        }
        if let Some(client) = request.client
            && let Err(why) = netapi_clients::check(enabled, client, &asked)
        {
            return refuse(why);
        }
        Ok((user, asked))
    }

    /// Whether a token is valid now: it has not expired, and its user has rules.
    pub(super) fn is_valid(&self, token: &LoginToken) -> bool {
        self.login(token).is_some()
    }

    fn login(&self, token: &LoginToken) -> Option<Arc<Login>> {
        let login = self.logins.find(token, self.clock.now())?;
        let access = self.settings.access();
        let rules = access.external_rules(login.way, &login.user, &login.groups);
        let has_rules = !rules.is_empty();
        has_rules.then_some(login)
    }

    fn may_act_for_users(&self, principal: &Principal) -> Result<(), String> {
        let authorizer = &self.decisions.authorizer;
        let decided = authorizer.authorize(principal, Action::ActForUsers, About::Nothing);
        decided.map(drop).map_err(|refusal| refusal.line)
    }

    /// Refuses a login, in the same words whatever is wrong.
    async fn refuse(&self, principal: &Principal, request: &LoginRequest) -> OperatorReply {
        let subject = subject(request);
        // It is refused also when it has no line.
        let _ = self.decisions.note_login(principal, subject, false).await;
        OperatorReply::Login(LoginReply::Refused)
    }
}

/// Whether a request lets others in for good, or changes the keys of the master.
fn makes_rights(request: &OperatorRequest) -> bool {
    matches!(
        request,
        OperatorRequest::Keys(KeyRequest::ActOnApis { .. } | KeyRequest::RotateIdentity)
            | OperatorRequest::Tokens(TokenRequest::Make(_) | TokenRequest::Revoke(_))
            | OperatorRequest::RotateGroupKey
    )
}

/// Returns what the line of a login in the audit file is about.
fn subject(request: &LoginRequest) -> String {
    format!("user {} by {}", request.user, request.eauth)
}

/// Whether a text can be the name of a user: it goes into logs and into the names of owners.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use saline_config::{LoginWay, MasterConfig};
    use saline_messages::Password;

    use super::*;
    use crate::parts::testing::{TestMaster, configuration, is_waiting};

    fn rules_of(user: &str) -> MasterConfig {
        configuration(&format!(
            "external_auth: {{auto: {{{user}: [test.ping]}}}}\n"
        ))
    }

    fn request() -> LoginRequest {
        LoginRequest {
            user: "ann".to_owned(),
            password: Password::new("anything".to_owned()),
            eauth: "auto".to_owned(),
            token: LoginToken([1; 32]),
        }
    }

    #[tokio::test]
    async fn a_login_that_is_under_way_does_not_survive_a_revocation() {
        let rules = rules_of("ann").external_auth;
        let master = TestMaster::start(|config| config.external_auth = rules).await;
        let verbs = master.state.operator_verbs().logins;
        let token = request().token;
        let mut logging_in = pin!(verbs.log_in(&Principal::LocalRoot, request()));
        assert!(is_waiting(logging_in.as_mut()), "the password is checked");
        assert_eq!(verbs.logins.revoke("ann", None).unwrap(), 0);
        let reply = logging_in.await.unwrap();
        assert_eq!(reply, OperatorReply::busy(REVOKED_DELAY));
        assert!(!verbs.is_valid(&token));
        // A reload that takes the user out, and one that names the user again.
        let mut logging_in = pin!(verbs.log_in(&Principal::LocalRoot, request()));
        assert!(is_waiting(logging_in.as_mut()), "the password is checked");
        master.state.reload(&rules_of("bob"));
        master.state.reload(&rules_of("ann"));
        let reply = logging_in.await.unwrap();
        assert_eq!(reply, OperatorReply::busy(REVOKED_DELAY));
        assert!(!verbs.is_valid(&token));
        let again = verbs.log_in(&Principal::LocalRoot, request()).await;
        assert!(
            matches!(again, Ok(OperatorReply::Login(LoginReply::LoggedIn(_)))),
            "{again:?}"
        );
        assert!(verbs.is_valid(&token));
    }

    #[tokio::test]
    async fn a_login_that_was_given_up_while_its_password_was_checked_is_not_made() {
        let rules = rules_of("ann").external_auth;
        let master = TestMaster::start(|config| config.external_auth = rules).await;
        let verbs = master.state.operator_verbs().logins;
        let token = request().token;
        let mut logging_in = pin!(verbs.log_in(&Principal::LocalRoot, request()));
        assert!(is_waiting(logging_in.as_mut()), "the password is checked");
        let ended = verbs.log_out(&Principal::LocalRoot, token).await;
        assert_eq!(ended.unwrap(), OperatorReply::LoggedOut);
        let reply = logging_in.await.unwrap();
        assert_eq!(reply, OperatorReply::Login(LoginReply::Refused));
        assert!(!verbs.is_valid(&token));
        assert!(verbs.logins.list(verbs.clock.now()).is_empty());
    }

    #[tokio::test]
    async fn a_user_who_is_named_again_does_not_get_old_logins_back() {
        let ann = rules_of("ann");
        let before = ann.external_auth.clone();
        let master = TestMaster::start(|config| {
            config.external_auth = before;
            // A login of a time at which the master had other rules.
            let store = LoginStore::open(&config.login_file()).unwrap();
            let old = NewLogin {
                token: LoginToken([2; 32]),
                user: "bob".to_owned(),
                way: LoginWay::Auto,
                groups: Vec::new(),
                valid_ms: 86_400_000,
            };
            let now = MasterClock::new(Context::default().clock).now();
            store.make(old, store.revocations(), now).unwrap();
        })
        .await;
        let verbs = master.state.operator_verbs().logins;
        let now = verbs.clock.now();
        assert!(verbs.logins.list(now).is_empty(), "ended at the start");
        verbs
            .log_in(&Principal::LocalRoot, request())
            .await
            .unwrap();
        assert!(verbs.is_valid(&request().token));
        for (rules, is_valid) in [(&ann, true), (&rules_of("bob"), false), (&ann, false)] {
            master.state.reload(rules);
            assert_eq!(verbs.is_valid(&request().token), is_valid);
        }
    }
}
