//! How a client says who it is, and which token of subjects that makes it.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use saline_protocol::transport::Context;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::credentials_file::CredentialsFile;
use super::disagrees;
use super::nkey::Nkey;
use crate::protocol::{Connect, ServerInfo};
use crate::subjects::token_of;

/// The user where NATS authenticates nobody, or everybody by one token.
const ANYBODY: &str = "anybody";

/// The largest file of a key or of credentials.
const MAX_FILE: u64 = 64 * 1024;

/// What the configuration says of the login at a server.
#[derive(Clone)]
pub(crate) enum Authentication {
    /// None, or a certificate alone.
    Nothing,
    Token(Zeroizing<String>),
    /// A user, with a password unless a certificate proves it.
    User(String, Option<Zeroizing<String>>),
    /// The file of an nkey's seed.
    Nkey(PathBuf),
    /// A file of credentials.
    Credentials(PathBuf),
}

impl std::fmt::Debug for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Token(_) => "Token",
            Self::User(..) => "User",
            Self::Nkey(_) => "Nkey",
            Self::Credentials(_) => "Credentials",
        })
    }
}

/// What a login is made of, as the files stand now.
#[derive(Debug)]
pub(crate) struct Login {
    /// The user as a token of subjects: what a server's permissions are about.
    pub(crate) user: String,
    secret: Secret,
}

enum Secret {
    Nothing,
    Token(Zeroizing<String>),
    User(String, Option<Zeroizing<String>>),
    Nkey(Nkey),
    Jwt(String, Nkey),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl Authentication {
    /// Reads the files that it names, afresh for every connection, since they are replaced while daemons run.
    ///
    /// # Errors
    /// `InvalidData`, with the file and what is wrong with it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn read(&self, context: &Context) -> io::Result<Login> {
        let (user, secret) = match self {
            Self::Nothing => (ANYBODY.to_owned(), Secret::Nothing),
            Self::Token(token) => (ANYBODY.to_owned(), Secret::Token(token.clone())),
            Self::User(user, password) => {
                (token_of(user), Secret::User(user.clone(), password.clone()))
            }
            Self::Nkey(path) => {
                let text = read(path, context).await?;
                let key = Nkey::of_seed(text.trim()).map_err(|why| bad_file("nkey", path, why))?;
                (key.public(), Secret::Nkey(key))
            }
            Self::Credentials(path) => {
                let text = read(path, context).await?;
                let bad = |why: String| bad_file("credentials", path, why);
                let file = CredentialsFile::parse(&text).map_err(|why| bad(why.to_owned()))?;
                let key = Nkey::of_seed(file.seed.trim());
                let key = key.map_err(|why| bad(format!("the seed in it: {why}")))?;
                let user = user_of(&file.jwt).ok_or_else(|| bad("its JWT is malformed".into()))?;
                (token_of(&user), Secret::Jwt(file.jwt, key))
            }
        };
        Ok(Login { user, secret })
    }
}

fn bad_file(option: &str, path: &Path, why: impl std::fmt::Display) -> io::Error {
    disagrees(format!("nats:{option}: {}: {why}", path.display()))
}

async fn read(path: &Path, context: &Context) -> io::Result<Zeroizing<String>> {
    use std::io::Read;
    let file = path.to_owned();
    let reading = context.spawn_blocking(move || {
        let mut text = Zeroizing::new(String::new());
        let file = std::fs::File::open(file)?;
        file.take(MAX_FILE).read_to_string(&mut text)?;
        io::Result::Ok(text)
    });
    let read = reading
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    read.map_err(|error| disagrees(format!("cannot read {}: {error}", path.display())))
}

/// The claims of a JWT that name its user.
#[derive(Deserialize)]
struct Claims {
    name: Option<String>,
    /// The public key.
    sub: String,
}

/// Returns the name in a JWT, or its public key where it has none. Whether the JWT is genuine is the server's to say.
fn user_of(jwt: &str) -> Option<String> {
    let claims = jwt.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    let name = claims.name.filter(|name| !name.is_empty());
    Some(name.unwrap_or(claims.sub)).filter(|user| !user.is_empty())
}

impl Login {
    /// Adds to `connect` what proves the user to the server that said `info`.
    ///
    /// # Errors
    /// `InvalidData` when the server gives nothing to sign.
    pub(crate) fn add_to(&self, connect: &mut Connect, info: &ServerInfo) -> io::Result<()> {
        let nonce = || {
            let why = "the server knows no nkeys: is authentication configured there?";
            info.nonce.as_deref().ok_or_else(|| disagrees(why))
        };
        match &self.secret {
            Secret::Nothing => {}
            Secret::Token(token) => connect.auth_token = Some(token.to_string()),
            Secret::User(user, password) => {
                connect.user = Some(user.clone());
                connect.pass = password.as_ref().map(|password| password.to_string());
            }
            Secret::Nkey(key) => {
                connect.nkey = Some(key.public());
                connect.sig = Some(key.sign(nonce()?));
            }
            Secret::Jwt(jwt, key) => {
                connect.jwt = Some(jwt.clone());
                connect.sig = Some(key.sign(nonce()?));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(claims: &str) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_user_of_a_jwt_is_its_name_or_its_key() {
        let user = |claims| user_of(&jwt(claims));
        assert_eq!(user(r#"{"name":"web1","sub":"UABC"}"#), Some("web1".into()));
        assert_eq!(user(r#"{"name":"","sub":"UABC"}"#), Some("UABC".into()));
        assert_eq!(user(r#"{"sub":"UABC"}"#), Some("UABC".into()));
        assert_eq!(user(r#"{"name":"web1"}"#), None);
        assert_eq!(user_of("e30"), None);
        assert_eq!(user_of("e30.!.sig"), None);
    }

    #[tokio::test]
    async fn a_file_that_is_no_key_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("minion.nk");
        let context = Context::default();
        let read = Authentication::Nkey(path.clone());
        let error = read.read(&context).await.unwrap_err();
        assert!(error.to_string().contains("minion.nk"), "{error}");
        std::fs::write(&path, "hunter2").unwrap();
        let error = read.read(&context).await.unwrap_err().to_string();
        assert!(
            error.contains("minion.nk") && error.contains("begins with SU"),
            "{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");
    }
}
