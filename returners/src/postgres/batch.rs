//! A batch as columns: one array for each parameter of a statement, so that a kind of record takes one statement.

use saline_data::Value;

use crate::columns::{flag, json, json_of, json_without_nul, number, text, without_nul};
use crate::{Content, Record};

/// A batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) jobs: Jobs,
    pub(super) returns: Returns,
    pub(super) events: Events,
}

/// The jobs of a batch.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) jid: Vec<String>,
    pub(super) number: Vec<i64>,
    pub(super) fun: Vec<String>,
    pub(super) arg: Vec<Option<String>>,
    pub(super) tgt: Vec<String>,
    pub(super) tgt_type: Vec<String>,
    pub(super) user: Vec<String>,
    pub(super) operator: Vec<String>,
    pub(super) minions: Vec<Option<String>>,
    /// All fields.
    pub(super) data: Vec<String>,
}

/// The returns of a batch.
#[derive(Debug, Default)]
pub(super) struct Returns {
    pub(super) jid: Vec<String>,
    pub(super) minion: Vec<String>,
    pub(super) number: Vec<i64>,
    pub(super) fun: Vec<String>,
    pub(super) fun_args: Vec<Option<String>>,
    pub(super) value: Vec<Option<String>>,
    pub(super) retcode: Vec<i64>,
    pub(super) success: Vec<bool>,
    /// All fields.
    pub(super) data: Vec<String>,
}

/// The events of a batch.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) number: Vec<i64>,
    pub(super) tag: Vec<String>,
    pub(super) origin: Vec<String>,
    pub(super) data: Vec<String>,
}

impl Batch {
    pub(super) fn of(records: &[Record]) -> Self {
        let mut batch = Self::default();
        for record in records {
            batch.add(record);
        }
        batch
    }

    fn add(&mut self, record: &Record) {
        let text = |data: &Value, field| without_nul(&text(data, field));
        let json = |data: &Value, field| json(data, field).map(|json| json_without_nul(&json));
        let json_of = |value: &Value| json_without_nul(&json_of(value));
        match &record.content {
            Content::Job { jid, data } => {
                let jobs = &mut self.jobs;
                jobs.jid.push(jid.clone());
                jobs.number.push(record.number);
                jobs.fun.push(text(data, "fun"));
                jobs.arg.push(json(data, "arg"));
                jobs.tgt.push(text(data, "tgt"));
                jobs.tgt_type.push(text(data, "tgt_type"));
                jobs.user.push(text(data, "user"));
                jobs.operator.push(text(data, "operator"));
                jobs.minions.push(json(data, "minions"));
                jobs.data.push(json_of(data));
            }
            Content::Return { jid, minion, data } => {
                let returns = &mut self.returns;
                returns.jid.push(jid.clone());
                returns.minion.push(minion.clone());
                returns.number.push(record.number);
                returns.fun.push(text(data, "fun"));
                returns.fun_args.push(json(data, "fun_args"));
                returns.value.push(json(data, "return"));
                returns.retcode.push(number(data, "retcode"));
                returns.success.push(flag(data, "success"));
                returns.data.push(json_of(data));
            }
            Content::Event { tag, origin, data } => {
                let events = &mut self.events;
                events.number.push(record.number);
                events.tag.push(without_nul(tag));
                events.origin.push(json_of(origin));
                events.data.push(json_of(data));
            }
        }
    }
}
