//! Compound expressions, also of minions whose grains are not known.

use super::*;

#[test]
fn compound_expressions_bind_as_salts_do() {
    use TargetKind::Compound;
    for (expression, expected) in [
        ("web*", true),
        ("not web*", false),
        ("G@os:Debian and web1", true),
        ("G@os:Debian and db*", false),
        ("db* or web* and G@os:Debian", true),
        ("web* or db* and G@os:RedHat", true),
        ("( web* or db* ) and G@os:RedHat", false),
        ("(web* or db*) and G@os:Debian", true),
        ("G@os:Debian not db*", true),
        ("G@os:Debian not web*", false),
        ("not db* and web*", true),
        ("not ( db* or web* )", false),
        ("not not web*", true),
        ("E@(web|db)(1|2)$", true),
        ("(E@(web|db)1 and L@web1,web2)", true),
        ("E@web1\\)", false),
        ("S@10.0.0.0/8 and P@roles:^w", true),
        ("G|@ip_interfaces|eth0|fe80::1", true),
        ("\"G@osfullname:Debian GNU/Linux\" and web*", true),
        ("'web1'", true),
    ] {
        assert_eq!(includes(Compound, expression), expected, "{expression}");
    }
}

#[test]
fn what_is_not_known_is_neither_included_nor_excluded() {
    use Inclusion::{Excluded, Included, Unknown};
    for (expression, expected) in [
        ("G@os:Debian", Unknown),
        ("not G@os:Debian", Unknown),
        ("S@10.0.0.0/8", Unknown),
        ("G@os:Debian and db*", Excluded),
        ("db* and G@os:Debian", Excluded),
        ("G@os:Debian and web*", Unknown),
        ("G@os:Debian or web*", Included),
        ("web* or G@os:Debian", Included),
        ("G@os:Debian or db*", Unknown),
        ("N@all", Unknown),
    ] {
        assert_eq!(
            decide(TargetKind::Compound, expression, None),
            expected,
            "{expression}"
        );
    }
}
