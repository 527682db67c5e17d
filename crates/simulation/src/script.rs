//! Runs our real scripts: Lua 5.1, with the functions that Redis gives to a script.
//!
//! There is one interpreter per thread. Scripts keep no state between calls: global variables are
//! protected, as in Redis. Functions of Redis that our scripts do not use are missing, so a script
//! that begins to use one fails.

mod structs;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use mlua::{Function, Lua, MultiValue, Table, Value};

use crate::keyspace::{self, Keyspace, READ_ONLY};
use crate::locality::{Locality, NON_LOCAL, keys_of};
use crate::resp::Reply;
use crate::slots::slot_of;

/// The context of a script call.
pub(crate) struct Context {
    pub(crate) keyspace: Keyspace,
    /// The time, which does not advance during a script.
    pub(crate) micros: u64,
    /// Whether the server is out of memory.
    pub(crate) is_full: bool,
    /// Whether it is a replica, which is read-only.
    pub(crate) is_read_only: bool,
    pub(crate) has_written: bool,
    /// Which keys it may access on a server of a Cluster.
    pub(crate) locality: Option<Locality>,
}

/// Why a script ended early.
#[derive(Debug)]
pub(crate) enum Failed {
    /// A command of the script failed, and the script with it.
    Command(String),
    /// The script itself is wrong.
    Script(String),
}

/// An error reply to a command inside of a script.
#[derive(Debug)]
struct CommandError(String);

struct Interpreter {
    lua: Lua,
    functions: RefCell<HashMap<String, Function>>,
}

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
    static INTERPRETER: Interpreter = Interpreter::new();
}

/// Protects global variables, as Redis does.
const PROTECT: &str = "\
setmetatable(_G, {
  __newindex = function(_, name) error('a script sets the global variable ' .. name) end,
  __index = function(_, name) error('a script reads the unknown variable ' .. name) end,
})";

/// The name of a script. Redis uses a SHA-1, but no client may rely on that.
pub(crate) fn name_of(text: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    format!("{:040x}", hasher.finish())
}

/// Runs a script over `context`, and returns the context.
pub(crate) fn run(
    text: &str,
    name: &str,
    keys: &[Vec<u8>],
    args: &[Vec<u8>],
    context: Context,
) -> (Result<Reply, Failed>, Context) {
    CONTEXT.set(Some(context));
    let result = INTERPRETER.with(|interpreter| interpreter.run(text, name, keys, args));
    let context = CONTEXT.take().expect("nobody else takes it");
    (result.map_err(classify_error), context)
}

// === impl Context ===

impl Context {
    pub(crate) const fn new(keyspace: Keyspace, micros: u64) -> Context {
        Context {
            keyspace,
            micros,
            is_full: false,
            is_read_only: false,
            has_written: false,
            locality: None,
        }
    }

    /// Executes a command of the script, if it may run here.
    fn call(&mut self, words: &[Vec<u8>]) -> Reply {
        let Some((name, rest)) = words.split_first() else {
            return Reply::error("ERR Please specify at least one argument for this redis.call()");
        };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        if let Some(locality) = &self.locality
            && let Some(error) = reject_keys(
                locality,
                &self.keyspace,
                keys_of(&name, rest),
                self.micros / 1_000,
            )
        {
            return error;
        }
        if keyspace::writes(&name) {
            if self.is_read_only {
                return Reply::error(READ_ONLY);
            }
            // As in Redis, a script that has already written may go on.
            if keyspace::needs_memory(&name) && self.is_full && !self.has_written {
                return Reply::error("OOM command not allowed when used memory > 'maxmemory'.");
            }
            self.has_written = true;
        }
        self.keyspace.execute(&name, rest, self.micros)
    }
}

/// The error of a command on keys that a script may not access here, or that are in several slots.
fn reject_keys(
    locality: &Locality,
    keyspace: &Keyspace,
    keys: &[Vec<u8>],
    millis: u64,
) -> Option<Reply> {
    let slot = slot_of(keys.first()?);
    if keys.iter().any(|key| slot_of(key) != slot) {
        let text = "ERR Script attempted to access keys that do not hash to the same slot";
        return Some(Reply::error(text));
    }
    let is_here = keys.iter().all(|key| locality.has(key, keyspace, millis));
    (!is_here).then(|| Reply::error(NON_LOCAL))
}

// === impl Interpreter ===

impl Interpreter {
    fn new() -> Interpreter {
        let lua = Lua::new();
        Interpreter::equip(&lua).expect("the interpreter can be equipped");
        Interpreter {
            lua,
            functions: RefCell::default(),
        }
    }

    fn equip(lua: &Lua) -> mlua::Result<()> {
        let globals = lua.globals();
        let redis = lua.create_table()?;
        redis.set("call", lua.create_function(call)?)?;
        redis.set("pcall", lua.create_function(protected_call)?)?;
        globals.set("redis", redis)?;
        let structs = lua.create_table()?;
        structs.set("pack", lua.create_function(structs::pack)?)?;
        structs.set("unpack", lua.create_function(structs::unpack)?)?;
        globals.set("struct", structs)?;
        for forbidden in ["io", "os", "require", "dofile", "loadfile", "print"] {
            globals.set(forbidden, Value::Nil)?;
        }
        lua.load(PROTECT).exec()
    }

    /// Runs a script in the interpreter, compiled at its first use and cached under `name`.
    fn run(
        &self,
        text: &str,
        name: &str,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> mlua::Result<Reply> {
        let known = self.functions.borrow().get(name).cloned();
        let function = match known {
            Some(function) => function,
            None => {
                let function = self
                    .lua
                    .load(text)
                    .set_name("@user_script")
                    .into_function()?;
                let mut functions = self.functions.borrow_mut();
                functions.insert(name.to_owned(), function.clone());
                function
            }
        };
        let globals = self.lua.globals();
        globals.raw_set("KEYS", self.list(keys)?)?;
        globals.raw_set("ARGV", self.list(args)?)?;
        Ok(reply_of(&function.call::<Value>(())?))
    }

    fn list(&self, words: &[Vec<u8>]) -> mlua::Result<Table> {
        let strings = words.iter().map(|word| self.lua.create_string(word));
        self.lua
            .create_sequence_from(strings.collect::<mlua::Result<Vec<_>>>()?)
    }
}

/// `redis.call`.
fn call(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    value_of(lua, execute(&args)?)
}

/// `redis.pcall`: the script goes on after an error reply, which is a table.
fn protected_call(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    match execute(&args)? {
        Reply::Error(text) => {
            let table = lua.create_table()?;
            table.set("err", text)?;
            Ok(Value::Table(table))
        }
        reply => value_of(lua, reply),
    }
}

/// Executes a command of a script.
fn execute(args: &MultiValue) -> mlua::Result<Reply> {
    let words: mlua::Result<Vec<Vec<u8>>> = args.iter().map(word_of).collect();
    let words = words?;
    Ok(CONTEXT.with_borrow_mut(|context| {
        let context = context.as_mut().expect("a script runs over something");
        context.call(&words)
    }))
}

/// Converts an argument as Redis does: whole numbers without a fraction.
fn word_of(value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) => Ok(format!("{number}").into_bytes()),
        _ => Err(mlua::Error::external(CommandError(
            "ERR Lua redis lib command arguments must be strings or integers".to_owned(),
        ))),
    }
}

fn value_of(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Integer(number) => Value::Integer(number),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Simple(text) => {
            let table = lua.create_table()?;
            table.set("ok", text)?;
            Value::Table(table)
        }
        Reply::Error(text) => return Err(mlua::Error::external(CommandError(text))),
        Reply::Array(elements) => {
            let values = elements.into_iter().map(|element| value_of(lua, element));
            let values = values.collect::<mlua::Result<Vec<_>>>()?;
            Value::Table(lua.create_sequence_from(values)?)
        }
    })
}

/// Converts the value that a script returns to a reply.
fn reply_of(value: &Value) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(truncate(*number)),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(table) => {
            if let Ok(text) = table.raw_get::<String>("ok") {
                return Reply::Simple(text);
            }
            let values = table.sequence_values::<Value>();
            let known = values.take_while(|value| !matches!(value, Ok(Value::Nil)));
            Reply::Array(known.flatten().map(|value| reply_of(&value)).collect())
        }
        _ => Reply::Nil,
    }
}

#[expect(clippy::as_conversions, reason = "Redis truncates in the same way")]
const fn truncate(number: f64) -> i64 {
    number as i64
}

/// Distinguishes a failed command from an error of the script.
fn classify_error(error: mlua::Error) -> Failed {
    if let Some(CommandError(text)) = error.downcast_ref::<CommandError>() {
        return Failed::Command(text.clone());
    }
    let mut cause = &error;
    while let mlua::Error::CallbackError { cause: inner, .. } = cause {
        cause = inner;
        if let mlua::Error::ExternalError(source) = cause
            && let Some(CommandError(text)) = source.downcast_ref::<CommandError>()
        {
            return Failed::Command(text.clone());
        }
    }
    Failed::Script(error.to_string())
}

// === impl CommandError ===

impl std::error::Error for CommandError {}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
