//! Sizes as operators write them: a number of bytes, or a number with `K`, `M`, `G` or `T` (also `KiB` and so on), which are
//! powers of 1,024.

/// Reads a size with a unit; none when `text` is not one.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let text = text.strip_suffix("iB").unwrap_or(text);
    let unit = text.chars().last()?;
    let power = "KMGT".chars().position(|known| known == unit)?;
    let number = text.strip_suffix(unit)?.trim_end();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let factor = 1024i64.checked_pow(u32::try_from(power).ok()? + 1)?;
    number.parse::<i64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        let texts = ["64K", "64KiB", "3 MiB", "10G", "1T", "0M"];
        let sizes = [65_536, 65_536, 3 << 20, 10 << 30, 1 << 40, 0];
        assert_eq!(texts.map(parse), sizes.map(Some));
        for text in [
            "",
            "10",
            "G",
            "iB",
            "10GB",
            "10 X",
            "-1G",
            "1.5G",
            "+1G",
            "9999999999T",
            "1é",
            "é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
