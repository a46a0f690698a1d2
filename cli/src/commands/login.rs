//! Logs the user of a command in, for commands that give orders in the name of a user.

use saline_client::{Client, ClientError};
use saline_messages::{LoginReply, LoginRequest, LoginToken, Password, random};

use crate::arguments::LoginOptions;
use crate::screen::Screen;
use crate::{kept_token, password};

/// The login of a command.
#[derive(Debug)]
pub(super) struct Login {
    token: LoginToken,
    /// What is asked of the master first; none with a token that was kept.
    request: Option<LoginRequest>,
    /// Whether the login outlives the command.
    is_kept: bool,
}

/// The client of a command, and the one that acts in the name of its user.
#[derive(Debug)]
pub(super) struct LoggedIn {
    acting: Client,
    /// The login that ends with the command.
    ends: Option<LoginToken>,
}

impl Login {
    /// Asks for what the command line does not say; none for a command that acts as who runs it. Call it before the process
    /// switches to another user: the token is kept with who runs the command.
    ///
    /// # Errors
    /// One line that says what is missing.
    pub(super) fn prepare(
        screen: &mut Screen<'_>,
        options: &LoginOptions,
    ) -> Result<Option<Self>, String> {
        let Some(eauth) = &options.eauth else {
            if !options.make_token {
                return Ok(None);
            }
            return Ok(Some(Self {
                token: kept_token::read(&kept_token::file()?)?,
                request: None,
                is_kept: true,
            }));
        };
        let read = |what: &str, error| format!("cannot read the {what}: {error}");
        let user = match &options.username {
            Some(user) => user.clone(),
            None => password::ask_openly("username: ").map_err(|error| read("username", error))?,
        };
        let given = match &options.password {
            Some(given) => {
                screen.note(
                    "WARNING: every user of this machine can read the password on the command line: leave --password out to be asked",
                );
                given.clone()
            }
            None => password::ask("password: ").map_err(|error| read("password", error))?,
        };
        let token = random::bytes().map(LoginToken);
        let token = token.map_err(|error| error.to_string())?;
        if options.make_token {
            kept_token::keep(&kept_token::file()?, &token)?;
        }
        Ok(Some(Self {
            token,
            request: Some(LoginRequest {
                user,
                password: Password::new(given),
                eauth: eauth.clone(),
                token,
            }),
            is_kept: options.make_token,
        }))
    }

    /// Logs the user in.
    ///
    /// # Errors
    /// The reason, in one line.
    async fn log_in(self, client: &Client) -> Result<LoggedIn, String> {
        if let Some(request) = self.request {
            let failed = |error: ClientError| error.to_string();
            match client.log_in(request).await.map_err(failed)? {
                LoginReply::LoggedIn(_) => {}
                LoginReply::Refused => {
                    return Err(
                        "the master refuses the login: the name, the password or the way (eauth) is wrong, or no rule of \
                         external_auth is for this user"
                            .to_owned(),
                    );
                }
            }
        }
        Ok(LoggedIn {
            acting: client.acting(self.token, None),
            ends: (!self.is_kept).then_some(self.token),
        })
    }
}

/// Logs the user of a command in, if there is a login.
///
/// # Errors
/// The reason why a login failed, in one line.
pub(super) async fn log_in(
    login: Option<Login>,
    client: &Client,
) -> Result<Option<LoggedIn>, String> {
    match login {
        Some(login) => login.log_in(client).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the client that a command works with.
pub(super) fn working<'a>(logged_in: Option<&'a LoggedIn>, client: &'a Client) -> &'a Client {
    logged_in.map_or(client, |login| &login.acting)
}

/// Ends what a command did not keep: its login, and the connection.
pub(super) async fn end(logged_in: Option<LoggedIn>, client: &Client) {
    if let Some(token) = logged_in.and_then(|login| login.ends) {
        // It ends by itself otherwise.
        let _ = client.log_out(token).await;
    }
    client.shutdown().await;
}
