//! The line that every command prints while the master is away.

use std::time::Duration;

use saline_client::Client;

use crate::screen::Screen;

/// Waits for `asking`, a request to the master. If the master is away meanwhile, prints that it is.
///
/// # Cancel safety
/// That of `asking`.
pub(crate) async fn until_answered<T>(
    screen: &mut Screen<'_>,
    client: &Client,
    asking: impl Future<Output = T>,
) -> T {
    let mut asking = std::pin::pin!(asking);
    loop {
        tokio::select! {
            biased;
            answer = &mut asking => return answer,
            within = client.master_away() => print_absence(screen, within),
        }
    }
}

/// Prints that the master is away, and how much longer the command waits for it.
fn print_absence(screen: &mut Screen<'_>, within: Duration) {
    screen.note(format!(
        "The master is away: waiting up to {} s for it. Minions go on with what they run.",
        within.as_secs_f64().ceil()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Printed;

    #[test]
    fn the_time_that_is_left_is_printed_in_whole_seconds() {
        let mut printed = Printed::default();
        print_absence(&mut printed.screen(&[]), Duration::from_millis(27_990));
        insta::assert_snapshot!(printed.shown(), @"
        --- stdout
        --- stderr
        The master is away: waiting up to 28 s for it. Minions go on with what they run.
        ");
    }
}
