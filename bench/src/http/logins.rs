//! Logins a second, and requests a second of those who are logged in.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use saline_protocol::transport::Clock;
use serde_json::json;
use tokio::task::JoinSet;

use super::HttpArguments;
use super::http_client::HttpClient;
use super::setting::{PASSWORD, Setting, WAYS};
use crate::Result;
use crate::row::Rows;

/// Connections that log in at once.
const CONNECTIONS: usize = 4;

/// Requests by token for each login.
const REQUESTS: usize = 50;

/// Logs every user in by each way, and then sends requests with these tokens.
pub(super) async fn measure(
    setting: &mut Setting,
    wanted: &HttpArguments,
    rows: &mut Rows,
) -> Result<()> {
    for way in WAYS {
        let before = setting.fleet.master_usage()?.cpu;
        let begin = Clock.now();
        let tokens = log_in(setting, way).await?;
        let rate = tokens.len() as f64 / (Clock.now() - begin).as_secs_f64();
        let cpu = setting.fleet.master_usage()?.cpu.saturating_sub(before);
        rows.show(setting.row(format!("logins by {way}"), "1/s", vec![rate]))?;
        let each = cpu.as_secs_f64() * 1e6 / tokens.len() as f64;
        let name = format!("CPU of the master, a login by {way}");
        rows.show(setting.row(name, "us", vec![each]))?;
        setting.tokens.extend(tokens);
    }
    let mut rates = Vec::new();
    for _ in 0..wanted.repeat {
        rates.push(ask_by_token(setting).await?);
    }
    rows.show(setting.row("requests by token (GET /stats)", "1/s", rates))
}

/// Logs every user in by one way, and returns the tokens.
async fn log_in(setting: &Setting, way: &'static str) -> Result<Vec<String>> {
    let users = Arc::new(setting.users.clone());
    let mut connections = JoinSet::new();
    for first in 0..CONNECTIONS {
        let (users, port) = (Arc::clone(&users), setting.port);
        connections.spawn(async move {
            let mut client = HttpClient::connect(port).await?;
            let mut tokens = Vec::new();
            for user in users.iter().skip(first).step_by(CONNECTIONS) {
                let login = json!({"username": user, "password": PASSWORD, "eauth": way});
                let login = client.post("/login", None, &login).await?;
                let token = login["return"][0]["token"].as_str();
                tokens.push(token.ok_or("a login without a token")?.to_owned());
            }
            Ok::<_, crate::Failure>(tokens)
        });
    }
    let mut tokens = Vec::new();
    while let Some(some) = connections.join_next().await {
        tokens.extend(some??);
    }
    Ok(tokens)
}

/// Sends requests with every token, and returns how many a second are answered.
async fn ask_by_token(setting: &Setting) -> Result<f64> {
    let tokens = Arc::new(setting.tokens.clone());
    let begin = Clock.now();
    let mut connections = JoinSet::new();
    for first in 0..CONNECTIONS {
        let (tokens, port) = (Arc::clone(&tokens), setting.port);
        connections.spawn(async move {
            let mut client = HttpClient::connect(port).await?;
            let mut answered = 0;
            for token in tokens.iter().skip(first).step_by(CONNECTIONS) {
                for _ in 0..REQUESTS {
                    client.get("/stats", Some(token)).await?.collect().await?;
                    answered += 1;
                }
            }
            Ok::<_, crate::Failure>(answered)
        });
    }
    let mut answered = 0;
    while let Some(some) = connections.join_next().await {
        answered += some??;
    }
    Ok(f64::from(answered) / (Clock.now() - begin).as_secs_f64())
}
