//! What the configuration lets whom do.

use saline_config::{
    AccessBlacklist, AccessRule, AccessRules, ExternalAuth, LoginWay, MasterConfig,
};

/// Who may do what.
#[derive(Debug, Default)]
pub(crate) struct AccessSettings {
    /// What users of this machine may do.
    pub(crate) publisher_acl: AccessRules,
    /// Whom and what `publisher_acl` never allows.
    pub(crate) publisher_acl_blacklist: AccessBlacklist,
    /// Whether the rules for everybody are also for those who are named.
    pub(crate) permissive_acl: bool,
    /// Who may log in, by which way, and what they may do then.
    pub(crate) external_auth: ExternalAuth,
    /// What operators with keys of their own may do; none for everything.
    pub(crate) operators: Option<AccessRules>,
    /// What files of the reactor may do; none for everything.
    pub(crate) reactor_acl: Option<Vec<AccessRule>>,
}

impl AccessSettings {
    /// Reads the options.
    pub(crate) fn of(config: &MasterConfig) -> Self {
        Self {
            publisher_acl: config.publisher_acl.clone(),
            publisher_acl_blacklist: config.publisher_acl_blacklist.clone(),
            permissive_acl: config.permissive_acl,
            external_auth: config.external_auth.clone(),
            operators: config.operators.clone(),
            reactor_acl: config.reactor.acl.clone(),
        }
    }

    /// Returns the rules of a user who logs in by this way; none for one who is not named.
    pub(crate) fn external_rules<'a>(
        &'a self,
        way: LoginWay,
        name: &'a str,
        groups: &'a [String],
    ) -> Vec<&'a AccessRule> {
        let rules = self.external_auth.ways.get(&way);
        let own = rules.map(|rules| rules.of(name, groups, self.permissive_acl));
        own.into_iter().flatten().collect()
    }
}
