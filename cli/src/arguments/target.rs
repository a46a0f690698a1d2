//! The options that say which minions are meant.

use clap::Args;
use saline_targeting::{Target, TargetKind};

/// The options that say which minions are meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetOptions {
    /// The target is a regular expression, matched from the beginning of an id: "web[0-9]+".
    #[arg(short = 'E', long)]
    pcre: bool,

    /// The target is a list of ids with commas or spaces between them: "web1,web2".
    #[arg(short = 'L', long)]
    list: bool,

    /// The target is the name of a grain and a glob that its value matches: "os:Deb*".
    #[arg(short = 'G', long)]
    grain: bool,

    /// The target is the name of a grain and a regular expression that its value matches: "os:(Debian|Ubuntu)".
    #[arg(short = 'P', long)]
    grain_pcre: bool,

    /// The target is an address or a network of minions: "10.0.0.0/8", "2001:db8::7".
    #[arg(short = 'S', long)]
    ipcidr: bool,

    /// The target is the name of a nodegroup in the master's configuration.
    #[arg(short = 'N', long)]
    nodegroup: bool,

    /// The target is "roles" or an attribute that the master's minions.d assigns, and a glob that its value matches: "roles:web".
    #[arg(short = 'A', long)]
    assigned: bool,

    /// The target combines others with and, or, not and parentheses: "G@os:Debian and ( web* or E@db[0-9] )".
    #[arg(short = 'C', long)]
    compound: bool,

    /// The target is a key of the pillar and a glob that its value matches: "role:web". Takes all rights.
    #[arg(short = 'I', long)]
    pillar: bool,

    /// The target is a key of the pillar and a regular expression that its value matches: "role:(web|db)". Takes all rights.
    #[arg(short = 'J', long)]
    pillar_pcre: bool,

    /// Stands between the parts of a target with -G, -P, -A, -I or -J, instead of a colon.
    #[arg(long, value_name = "CHARACTER", value_parser = character)]
    delimiter: Option<char>,

    /// Ask minions that have reported no grains too, where the target depends on grains. Each of them decides itself.
    #[arg(long)]
    pub(crate) include_unknown: bool,

    /// Run on this many of the minions that match and are connected, chosen at random.
    #[arg(long, value_name = "NUMBER", value_parser = minions)]
    pub(crate) subset: Option<u32>,

    /// Print the minions that the target matches, and publish nothing.
    #[arg(long)]
    pub(crate) preview_target: bool,
}

impl TargetOptions {
    /// Checks that the options fit together.
    ///
    /// # Errors
    /// One line that names those that do not.
    pub(super) fn check(&self) -> Result<(), String> {
        let given: Vec<&str> = self.given().map(|(_, name)| name).collect();
        if given.len() > 1 {
            return Err(format!(
                "only one kind of target can be given, not {} together",
                given.join(", ")
            ));
        }
        if self.delimiter.is_some() && !self.kind().has_delimiter() {
            return Err(
                "option --delimiter goes with -G, -P, -A, -I or -J; in a compound expression write it behind the letter: \
                 G|@key|value"
                    .to_owned(),
            );
        }
        if self.subset.is_some() && self.preview_target {
            return Err(
                "option --preview-target shows all that match; --subset chooses again for each job"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Returns the target with this expression.
    pub(super) fn target(&self, expression: &str) -> Target {
        Target::with_delimiter(self.kind(), expression, self.delimiter.unwrap_or(':'))
    }

    /// Returns the kind of the target.
    pub(super) fn kind(&self) -> TargetKind {
        self.given()
            .next()
            .map_or(TargetKind::Glob, |(kind, _)| kind)
    }

    /// Returns the kinds of targets that were asked for, with their options.
    fn given(&self) -> impl Iterator<Item = (TargetKind, &'static str)> {
        [
            (self.pcre, TargetKind::Pcre, "-E/--pcre"),
            (self.list, TargetKind::List, "-L/--list"),
            (self.grain, TargetKind::Grain, "-G/--grain"),
            (self.grain_pcre, TargetKind::GrainPcre, "-P/--grain-pcre"),
            (self.nodegroup, TargetKind::Nodegroup, "-N/--nodegroup"),
            (self.assigned, TargetKind::Assigned, "-A/--assigned"),
            (self.compound, TargetKind::Compound, "-C/--compound"),
            (self.pillar, TargetKind::Pillar, "-I/--pillar"),
            (self.pillar_pcre, TargetKind::PillarPcre, "-J/--pillar-pcre"),
            (self.ipcidr, TargetKind::IpCidr, "-S/--ipcidr"),
        ]
        .into_iter()
        .filter_map(|(given, kind, name)| given.then_some((kind, name)))
    }
}

fn character(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(format!("'{text}' is not one character")),
    }
}

/// Reads a number of minions, at least one.
pub(super) fn minions(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("'{text}' is not a number of minions, 1 or more")),
    }
}
