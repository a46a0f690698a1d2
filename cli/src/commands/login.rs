//! Logs the user of a command in, for commands that give orders in the name of a user.

use saline_client::Client;
use saline_messages::{LoginRequest, LoginToken, Password, random};

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

/// The connection of a command to its master, with the login of its user.
#[derive(Debug)]
pub(super) struct Connection {
    /// The client of who runs the command.
    own: Client,
    /// The one that acts in the name of the user who logged in.
    acting: Option<Client>,
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
        let credentials = &options.credentials;
        let Some(eauth) = &credentials.eauth else {
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
        let user = match &credentials.username {
            Some(user) => user.clone(),
            None => password::ask_openly("username: ").map_err(|error| read("username", error))?,
        };
        let given = match &credentials.password {
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
}

impl Connection {
    /// Makes the connection of a command that acts as who runs it.
    pub(super) fn new(own: Client) -> Self {
        Self {
            own,
            acting: None,
            ends: None,
        }
    }

    /// Logs the user of the command in, if there is a login.
    ///
    /// # Errors
    /// The reason why the login failed, in one line; then the connection has ended.
    pub(super) async fn log_in(mut self, login: Option<Login>) -> Result<Self, String> {
        let Some(login) = login else {
            return Ok(self);
        };
        if let Some(request) = login.request {
            let refused = match self.own.log_in(request).await {
                Ok(Some(_)) => None,
                Ok(None) => Some(
                    "the master refuses the login: the name, the password or the way (eauth) is wrong, or no rule of \
                     external_auth is for this user"
                        .to_owned(),
                ),
                Err(error) => Some(error.to_string()),
            };
            if let Some(line) = refused {
                self.own.shutdown().await;
                return Err(line);
            }
        }
        self.acting = Some(self.own.acting(login.token, None));
        self.ends = (!login.is_kept).then_some(login.token);
        Ok(self)
    }

    /// Returns the client that the command works with.
    pub(super) fn client(&self) -> &Client {
        self.acting.as_ref().unwrap_or(&self.own)
    }

    /// Ends what the command did not keep: its login, and the connection.
    pub(super) async fn end(self) {
        if let Some(token) = self.ends {
            // It ends by itself otherwise.
            let _ = self.own.log_out(token).await;
        }
        self.own.shutdown().await;
    }
}
