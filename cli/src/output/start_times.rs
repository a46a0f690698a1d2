//! Writes the zone behind the times at which jobs were published. The data of `jobs.*` have these times without one, as Salt's do.

use saline_data::Value;

/// The name of such a time.
const NAME: &str = "StartTime";

/// The form of such a time, with `0` for a digit and `a` for a letter.
const FORM: &[u8] = b"0000, aaa 00 00:00:00.000000";

/// Writes the zone behind the time of a job, or of each job in a mapping of them.
pub(crate) fn show_zone(value: &mut Value) {
    show_zone_of_job(value);
    let Value::Map(jobs) = value else { return };
    jobs.iter_mut().for_each(|(_, job)| show_zone_of_job(job));
}

fn show_zone_of_job(job: &mut Value) {
    let Value::Map(facts) = job else { return };
    for (name, value) in facts {
        if let Value::Text(time) = value
            && name == NAME
            && is_time(time)
        {
            time.push_str(" UTC");
        }
    }
}

fn is_time(text: &str) -> bool {
    let is_like = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b'a' => byte.is_ascii_alphabetic(),
        form => byte == *form,
    };
    text.len() == FORM.len() && text.bytes().zip(FORM).all(is_like)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_jobs_have_their_zone_and_nothing_else_does() {
        let time = "2026, Nov 21 09:14:09.931549";
        let mut one = Value::map([(NAME, time.into()), ("User", time.into())]);
        let mut several = Value::map([("20261121091409931549", one.clone())]);
        show_zone(&mut one);
        let zoned = Value::map([(NAME, format!("{time} UTC").into()), ("User", time.into())]);
        assert_eq!(one, zoned);
        show_zone(&mut several);
        assert_eq!(several, Value::map([("20261121091409931549", zoned)]));
        for text in [
            "",
            "00000000000000000000",
            "2026, Nov 21 09:14:09.931549 UTC",
        ] {
            let job = Value::map([(NAME, text.into())]);
            let mut shown = job.clone();
            show_zone(&mut shown);
            assert_eq!(shown, job);
        }
    }
}
