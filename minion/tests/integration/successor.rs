//! The master and the minion of this build as those of a successor would be: they speak another range of versions,
//! and agree on the highest common one.

use crate::deployment::Deployment;
use saline_client::{Client, RunnerSpec};
use saline_data::Value;
use saline_messages::{KeyRequest, ProtocolVersions};

fn versions(lowest: u16, highest: u16) -> ProtocolVersions {
    ProtocolVersions { lowest, highest }
}

async fn speaking(master: ProtocolVersions) -> Deployment {
    let mut deployment = Deployment::without_master();
    deployment.versions = master;
    deployment.start_master().await;
    deployment
}

/// Returns the version of the session with the minion `id`, as `manage.versions` shows it: where the master speaks
/// one version alone, it shows none.
async fn agreed(deployment: &Deployment, id: &str) -> u16 {
    let client = deployment.client().await;
    let run = client.runner(RunnerSpec::new("manage.versions")).unwrap();
    let Value::Map(groups) = run.end().await.unwrap().value().unwrap() else {
        panic!("manage.versions returns a mapping");
    };
    client.shutdown().await;
    let shown = groups.iter().find_map(|(_, group)| group.get(id)?.as_str());
    let shown = shown.unwrap();
    let versions = deployment.versions;
    match versions.lowest == versions.highest {
        true => versions.highest,
        false => {
            let number = shown.split("(protocol ").nth(1).unwrap();
            number.trim_end_matches(')').parse().unwrap()
        }
    }
}

#[tokio::test]
async fn the_highest_common_version_is_agreed_on_and_the_session_works() {
    for (master, minion, common) in [
        (versions(1, 2), versions(1, 1), 1),
        (versions(1, 1), versions(1, 2), 1),
        (versions(1, 2), versions(1, 2), 2),
        (versions(2, 3), versions(1, 2), 2),
    ] {
        // An operator's program is upgraded with its master.
        let operators = master.lowest == 1;
        let mut deployment = speaking(master).await;
        let running = deployment.start_with_versions(deployment.minion_config("m1"), minion);
        running.wait_for("connected, ").await;
        // Again when it knows the master.
        for _ in 0..2 {
            if operators {
                deployment.wait_until_it_answers("m1").await;
                let text = [Value::from("x")];
                let returned = deployment.ask("m1", "test.echo", &text).await;
                assert_eq!(returned.value, text[0]);
                assert_eq!(agreed(&deployment, "m1").await, common);
            }
            deployment.stop_master().await;
            deployment.start_master().await;
            running.wait_for("connected, ").await;
        }
        running.stop().await;
        deployment.stop_master().await;
    }
}

#[tokio::test]
async fn without_a_common_version_minion_and_operator_say_what_to_do() {
    let deployment = speaking(versions(2, 3)).await;
    let minion = deployment.start(deployment.minion_config("m1"));
    minion
        .wait_for("they speak no common protocol version")
        .await;
    minion.stop().await;

    let refused = match Client::connect(&deployment.config, &deployment.registry).await {
        Ok(client) => client.keys(KeyRequest::List).await.map(drop),
        Err(error) => Err(error),
    };
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("speaks protocol 2 to 3, this program speaks 1"),
        "{said}"
    );
    assert!(said.contains("use the programs of one version"), "{said}");
}
