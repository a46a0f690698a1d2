//! When a job of cron runs: its five fields, by crontab(5).

use std::ops::RangeInclusive;

use saline_functions::Failure;

/// The five fields of a job, with their least and greatest numbers, and with names of the numbers.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("daymonth", 1, 31, &[]),
    (
        "month",
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (
        "dayweek",
        0,
        7,
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ),
];

/// Checks when a job runs, as crontab(5) says.
///
/// # Errors
/// When one of the fields is no time, although Debian's cron takes some that only begin like one. What some crons take, such as a range
/// that runs backwards, is left to crontab.
pub(super) fn check_times(times: &[String; 5]) -> Result<(), Failure> {
    for (time, (field, low, high, names)) in times.iter().zip(FIELDS) {
        // A `-` before the minute keeps cronie from logging the job.
        let unlogged = time.strip_prefix('-').filter(|_| field == "minute");
        let mut parts = unlogged.unwrap_or(time).split(',');
        if !parts.all(|part| is_time(part, low..=high, names)) {
            let or = names
                .first()
                .map_or_else(String::new, |name| format!(" or names such as {name}"));
            return Err(Failure::Invocation(format!(
                "{field}: {time:?} is not a valid time of cron: give *, numbers from {low} to {high}{or}, ranges such as {low}-{high}, \
                 or steps such as */2, with commas between them"
            )));
        }
    }
    Ok(())
}

/// Returns whether this is a number or a name, or a range with or without a step.
fn is_time(part: &str, numbers: RangeInclusive<u32>, names: &[&str]) -> bool {
    // What `parse` takes beside digits.
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with('+'));
    let is_one = |text: &str| {
        names.iter().any(|name| name.eq_ignore_ascii_case(text))
            || number(text).is_some_and(|number| numbers.contains(&number))
    };
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    let is_range = match (range.split_once('-'), range.split_once('~')) {
        (Some((first, last)), _) => is_one(first) && is_one(last),
        // cronie takes a number between both at random, and knows the ends itself.
        (None, Some((first, last))) => [first, last]
            .iter()
            .all(|end| end.is_empty() || is_one(end)),
        (None, None) => range == "*" || step.is_none() && is_one(range),
    };
    is_range && step.is_none_or(|step| number(step).is_some_and(|step| step > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_time_is_a_panic(part in ".*") {
            let _ = is_time(&part, 0..=7, &["sun"]);
        }
    }

    #[test]
    fn times_are_what_cron_takes() {
        let check = |line: &str| {
            let times: Vec<String> = line.split(' ').map(str::to_owned).collect();
            check_times(&times.try_into().unwrap()).map_err(|failure| failure.to_string())
        };
        for line in [
            "* * * * *",
            "*/5 0-23/2 1,15,20-31 * 1-5",
            "007 0 1 JAN-Mar,5 sun,Fri-7",
            "*/99 22-6 31 jan-3 fri-sun",
            "0~30 ~ ~9/2 * *",
            "-0 0 * * *",
        ] {
            assert_eq!(check(line), Ok(()), "{line}");
        }
        for (field, lines) in [
            (
                "minute",
                "60|-|+1|1,|,1|1,,2|*/0|*/x|5/10|1-|1-5/|--1|x|1.5|@daily|#|",
            ),
            ("hour", "24|0-24|-1|mon"),
            ("daymonth", "0|32|l|1 2"),
            ("month", "0|13|january|jan/2"),
            ("dayweek", "8|*/mon|0-8|jan"),
        ] {
            let at = FIELDS.iter().position(|known| known.0 == field).unwrap();
            for time in lines.split('|') {
                let mut times = ["*"; 5].map(str::to_owned);
                times[at] = time.to_owned();
                let why = check_times(&times).unwrap_err().to_string();
                let begins =
                    format!("{field}: {time:?} is not a valid time of cron: give *, numbers from ");
                assert!(why.starts_with(&begins), "{why}");
            }
        }
    }
}
