//! How long a master takes to find the minions of a target in its table of grains.

use std::time::Duration;

use saline_data::{Packed, Value};
use saline_master::facts::KnownMinion;
use saline_master::grains::{GrainsTable, GrainsTaken};
use saline_master::orders::resolve_among;
use saline_messages::{GrainsReport, MinionId};
use saline_protocol::transport::{Clock, Context};
use saline_targeting::{Target, TargetKind};

use crate::Result;

/// The arguments of `targets`.
#[derive(Debug, clap::Args)]
pub(crate) struct TargetsArguments {
    /// How many minions
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    minions: usize,
    /// How often each expression is resolved
    #[arg(long, value_name = "N", default_value_t = 21)]
    repeat: usize,
    /// Fail if the median of an expression is longer than this
    #[arg(long, value_name = "MS")]
    limit: Option<f64>,
}

/// The expressions, one of each kind that looks at every minion, and compound ones.
const EXPRESSIONS: [(TargetKind, &str); 8] = [
    (TargetKind::Glob, "web*"),
    (TargetKind::Pcre, "(web|db)\\d*[02468]$"),
    (TargetKind::Pcre, "(?!web)\\w+[02468]$"),
    (TargetKind::Grain, "os:Deb*"),
    (TargetKind::GrainPcre, "role:(db|cache)$"),
    (TargetKind::IpCidr, "10.0.0.0/9"),
    (TargetKind::Grain, "ip_interfaces:eth0:10.0.*"),
    (
        TargetKind::Compound,
        "G@os:Debian and ( web* or P@role:^(db|cache)$ ) and not S@10.0.7.0/24 and not E@.*99$",
    ),
];

/// Measures every expression and prints a line for each.
pub(crate) fn run(wanted: &TargetsArguments) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let runtime = crate::runtime(1)?;
    let _entered = runtime.enter();
    let table = GrainsTable::open(&folder.path().join("grains.sqlite"), &Context::default());
    let mut ids = Vec::with_capacity(wanted.minions);
    for number in 0..wanted.minions {
        let name = ["web", "db", "cache", "job"][number % 4];
        let id = MinionId::parse(&format!("{name}{number:05}"))?;
        let grains = Packed::pack(&grains(&id, name, number));
        let report = GrainsReport {
            digest: GrainsReport::digest_of(&grains),
            grains: Some(grains),
        };
        match table.take(&id, &report) {
            GrainsTaken::Known => ids.push(id),
            other => return Err(format!("{other:?}").into()),
        }
    }
    ids.sort();
    let bytes: usize = table
        .of(&ids)
        .iter()
        .flatten()
        .map(|grains| grains.size())
        .sum();
    println!(
        "{} minions, {} bytes of grains for each",
        ids.len(),
        bytes / ids.len().max(1)
    );
    println!("median ms   longest ms   included   target");
    for (kind, expression) in EXPRESSIONS {
        let (times, included) = measure(&table, &ids, kind, expression, wanted.repeat)?;
        let at = |index: usize| {
            times
                .get(index)
                .map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        let (median, longest) = (at(times.len() / 2), at(times.len().saturating_sub(1)));
        println!(
            "{median:9.2}   {longest:10.2}   {included:8}   {}: {expression}",
            kind.name()
        );
        if wanted.limit.is_some_and(|limit| median > limit) {
            return Err(format!("{expression} took {median:.2} ms").into());
        }
    }
    Ok(())
}

/// Resolves one expression again and again. Returns the times in order, and how many minions it includes.
fn measure(
    table: &GrainsTable,
    ids: &[MinionId],
    kind: TargetKind,
    expression: &str,
    repeat: usize,
) -> Result<(Vec<Duration>, usize)> {
    let mut times = Vec::with_capacity(repeat);
    let mut included = 0;
    for _ in 0..repeat.max(1) {
        let target = Target {
            kind,
            expression: expression.to_owned(),
        };
        let began = Clock.now();
        let target = target.compile()?;
        let known = match target.needs_grains() {
            true => table.of(ids),
            false => Vec::new(),
        };
        let of_one = |grains| KnownMinion {
            grains,
            pillar: None,
        };
        let known = known.into_iter().map(of_one).collect();
        let resolved = resolve_among(&target, ids, known, &Default::default(), false)?;
        times.push(Clock.now() - began);
        included = resolved.minions.len();
    }
    times.sort();
    Ok((times, included))
}

/// Returns the grains of a usual machine: some sixty, with lists of flags and addresses.
fn grains(id: &MinionId, role: &str, number: usize) -> Value {
    let os = ["Debian", "Ubuntu", "Rocky"][number % 3];
    let address = format!(
        "10.{}.{}.{}",
        number / 65_536,
        number / 256 % 256,
        number % 256
    );
    let addresses = Value::texts(["127.0.0.1", &address]);
    let mut entries = vec![
        ("id".to_owned(), Value::from(id.as_str())),
        ("os".to_owned(), Value::from(os)),
        ("role".to_owned(), Value::texts([role, "all"])),
        ("num_cpus".to_owned(), Value::from(8_i64)),
        ("ipv4".to_owned(), addresses.clone()),
        ("ipv6".to_owned(), Value::texts(["::1", "fe80::1"])),
        (
            "ip_interfaces".to_owned(),
            Value::map([("eth0", addresses), ("lo", Value::texts(["127.0.0.1"]))]),
        ),
        (
            "cpu_flags".to_owned(),
            Value::texts((0..150).map(|flag| format!("flag{flag}"))),
        ),
    ];
    entries.extend((0..50).map(|other| {
        let value = Value::from(format!("the value of grain {other} on {id}"));
        (format!("grain{other}"), value)
    }));
    Value::Map(entries)
}
