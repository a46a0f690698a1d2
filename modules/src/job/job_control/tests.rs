use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};

use saline_messages::Jid;

use super::*;

fn control() -> JobControl {
    JobControl::new(RunningJob::example("20261121091409931549"))
}

fn request(signal: Signal) -> Ending {
    Ending {
        signal,
        by: Jid::parse("20261121091500000000").unwrap(),
        user: "root".to_owned(),
    }
}

fn sleep() -> io::Result<(Pid, Child)> {
    let child = Command::new("sleep").arg("600").process_group(0).spawn()?;
    Ok((Pid::from_child(&child), child))
}

#[test]
fn a_job_that_waits_for_a_thread_does_not_begin() {
    let control = control();
    assert!(!control.has_begun());
    assert_eq!(
        control.signal(request(Signal::USR1)),
        SignalEffect::NoProcess
    );
    assert_eq!(
        control.signal(request(Signal::TERM)),
        SignalEffect::NotBegun
    );
    assert_eq!(
        control.signal(request(Signal::KILL)),
        SignalEffect::NotBegun
    );
    // The first request counts.
    assert_eq!(control.begin(), Err(request(Signal::TERM)));
    assert!(!control.has_begun());
}

#[test]
fn a_wait_is_interrupted_and_a_later_one_does_not_begin() {
    let (control, stop) = (control(), Stop::new().unwrap());
    control.begin().unwrap();
    let shortly = control.wait(&stop, Duration::from_millis(1)).unwrap();
    assert_eq!(shortly, Woken::TimePassed);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| control.wait(&stop, Duration::MAX).unwrap());
        while !control.is_waiting() {
            std::thread::yield_now();
        }
        assert_eq!(
            control.signal(request(Signal::USR1)),
            SignalEffect::NoProcess
        );
        assert_eq!(
            control.signal(request(Signal::KILL)),
            SignalEffect::Interrupted
        );
        let woken = waiting.join().unwrap();
        assert_eq!(woken, Woken::Ended(request(Signal::KILL)));
    });
    let again = control.wait(&stop, Duration::MAX).unwrap();
    assert_eq!(again, Woken::Ended(request(Signal::KILL)));
}

#[test]
fn a_command_gets_every_signal_until_it_is_detached() {
    let control = control();
    control.begin().unwrap();
    let (mut child, process) = control.start_command(sleep).unwrap();
    let pid = child.id();
    assert_eq!(control.description().pid, pid);
    for signal in [Signal::STOP, Signal::CONT, Signal::KILL] {
        assert_eq!(control.signal(request(signal)), SignalEffect::Sent(pid));
    }
    process.detach();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(control.signal(request(Signal::KILL)), SignalEffect::Noted);
    assert_eq!(control.description().pid, std::process::id());
    assert!(matches!(
        control.start_command(sleep),
        Err(StartError::Ended(_))
    ));
}

#[test]
fn a_signal_that_comes_while_a_command_is_started_reaches_it() {
    let control = control();
    control.begin().unwrap();
    let spawn = || {
        let effect = control.signal(request(Signal::KILL));
        assert_eq!(effect, SignalEffect::SentAtStart);
        sleep()
    };
    let (mut child, process) = control.start_command(spawn).unwrap();
    process.detach();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}
