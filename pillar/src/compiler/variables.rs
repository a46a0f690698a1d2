//! The variables of the templates of a pillar.

use saline_data::Value;
use saline_render::{Document, Request};

use super::Compiler;

impl Compiler<'_> {
    /// Returns the order to render a file, with the variables of its template.
    pub(super) fn request(
        &self,
        environment: &str,
        sls: &str,
        file: &str,
        document: Document,
        defaults: &Value,
    ) -> Request {
        let text = |text: &str| Value::from(text);
        let grains = self.subject.grains.map(|grains| grains.all().into_owned());
        let mut grains = match grains {
            Some(Value::Map(grains)) => grains,
            _ => Vec::new(),
        };
        grains.retain(|(name, _)| name != "id");
        grains.push(("id".to_owned(), text(self.subject.id)));
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let joined = |separator: &str| text(&folder.replace('/', separator));
        let path = self.environments.path_of(environment, file);
        let mut variables = match defaults {
            Value::Map(defaults) => defaults.clone(),
            _ => Vec::new(),
        };
        let saltenv = self.options.saltenv.unwrap_or(self.options.base);
        let own = [
            ("grains", Value::Map(grains)),
            ("assigned", self.subject.assigned.clone()),
            ("pillar", Value::Map(Vec::new())),
            (
                "opts",
                Value::map([
                    ("id", text(self.subject.id)),
                    ("saltenv", text(saltenv)),
                    (
                        "pillarenv",
                        self.options.pillarenv.map_or(Value::Null, text),
                    ),
                ]),
            ),
            ("minion_id", text(self.subject.id)),
            ("saltenv", text(environment)),
            ("pillarenv", text(environment)),
            ("sls", text(sls)),
            ("slspath", text(folder)),
            ("slsdotpath", joined(".")),
            ("slscolonpath", joined(":")),
            ("sls_path", joined("_")),
            ("tplpath", text(path.as_deref().unwrap_or(file))),
            ("tplfile", text(file)),
            ("tpldir", text(if folder.is_empty() { "." } else { folder })),
            ("tpldot", joined(".")),
        ];
        variables.retain(|(name, _)| own.iter().all(|(own, _)| own != name));
        variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        Request {
            name: file.to_owned(),
            document,
            variables: Value::Map(variables),
        }
    }
}
