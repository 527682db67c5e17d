//! Redis's `struct` library, as far as our scripts use it: integers and strings of a given size,
//! big-endian.

use mlua::{Lua, MultiValue, Value};

/// One item of a format.
enum Item {
    /// An integer of so many bytes.
    Number(usize),
    /// A string of so many bytes.
    Text(usize),
    /// A string as long as the number before it says, which is not a value of its own then.
    Counted,
}

/// `struct.pack`.
pub(super) fn pack(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let mut args = args.iter();
    let format = text(args.next())?;
    let mut out = Vec::new();
    for item in items(&format)? {
        match item {
            Item::Number(size) => {
                let number = number(args.next())?;
                let bytes = number.to_be_bytes();
                out.extend_from_slice(&bytes[bytes.len() - size..]);
            }
            Item::Text(size) => {
                let text = text(args.next())?;
                let given = text
                    .get(..size)
                    .ok_or_else(|| wrong("a string is too short"))?;
                out.extend_from_slice(given);
            }
            Item::Counted => out.extend_from_slice(&text(args.next())?),
        }
    }
    Ok(Value::String(lua.create_string(out)?))
}

/// `struct.unpack`: the values, and the position after them.
pub(super) fn unpack(lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let mut args = args.iter();
    let format = text(args.next())?;
    let data = text(args.next())?;
    let from = match args.next() {
        Some(position) => number(Some(position))?.max(1) - 1,
        None => 0,
    };
    let mut at = usize::try_from(from).map_err(mlua::Error::external)?;
    let mut values = Vec::new();
    for item in items(&format)? {
        let size = match item {
            Item::Number(size) | Item::Text(size) => size,
            Item::Counted => {
                let size = values.pop();
                let size = number(size.as_ref())?;
                usize::try_from(size).map_err(mlua::Error::external)?
            }
        };
        let bytes = data.get(at..at + size);
        let bytes = bytes.ok_or_else(|| wrong("data string too short"))?;
        at += size;
        values.push(match item {
            Item::Number(_) => {
                let sum = bytes
                    .iter()
                    .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
                Value::Number(double(sum))
            }
            Item::Text(_) | Item::Counted => Value::String(lua.create_string(bytes)?),
        });
    }
    values.push(Value::Number(double(
        u64::try_from(at + 1).map_err(mlua::Error::external)?,
    )));
    Ok(MultiValue::from_vec(values))
}

/// Parses the part of `struct`'s formats that the scripts use: `>`, `B`, `I` and `c` with a size.
fn items(format: &[u8]) -> mlua::Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut rest = format;
    while let Some((sign, after)) = rest.split_first() {
        let digits = after
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let size = std::str::from_utf8(&after[..digits]).ok();
        let size = size.and_then(|size| size.parse().ok());
        rest = &after[digits..];
        items.push(match (sign, size) {
            (b'>', None) => continue,
            (b'B', None) => Item::Number(1),
            (b'I', Some(size @ 1..=8)) => Item::Number(size),
            (b'c', Some(0)) => Item::Counted,
            (b'c', Some(size)) => Item::Text(size),
            _ => return Err(wrong("the simulation does not know this format")),
        });
    }
    Ok(items)
}

fn text(value: Option<&Value>) -> mlua::Result<Vec<u8>> {
    match value {
        Some(Value::String(text)) => Ok(text.as_bytes().to_vec()),
        Some(Value::Integer(number)) => Ok(number.to_string().into_bytes()),
        _ => Err(wrong("a string is expected")),
    }
}

/// Converts a double to an integer, as C does.
fn number(value: Option<&Value>) -> mlua::Result<u64> {
    match value {
        Some(Value::Integer(number)) => Ok(number.cast_unsigned()),
        Some(Value::Number(number)) => Ok(whole(*number)),
        Some(Value::String(text)) => {
            let text = text.to_str()?;
            text.trim().parse().map_err(mlua::Error::external)
        }
        _ => Err(wrong("a number is expected")),
    }
}

#[expect(clippy::as_conversions, reason = "C converts in the same way")]
fn whole(number: f64) -> u64 {
    if number < 0.0 {
        (number as i64).cast_unsigned()
    } else {
        number as u64
    }
}

#[expect(clippy::as_conversions, reason = "Lua's numbers are doubles")]
#[expect(clippy::cast_precision_loss, reason = "as in Redis")]
const fn double(number: u64) -> f64 {
    number as f64
}

fn wrong(why: &str) -> mlua::Error {
    mlua::Error::runtime(why)
}
