// Tables, and numbers as text. Every text from the service is set as text, never as markup.

const THOUSANDS = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const whole = (number) => THOUSANDS.format(number ?? 0);

export function perSecond(number) {
  if (number === null) return "–";
  return number >= 100 || number === 0 ? whole(number) : SHORT.format(number);
}

export function time(seconds) {
  if (seconds === null) return "–";
  if (seconds < 0.001) return `${SHORT.format(seconds * 1e6)} µs`;
  return seconds < 1 ? `${SHORT.format(seconds * 1e3)} ms` : `${SHORT.format(seconds)} s`;
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, number)) / 10));
  return `${SHORT.format(number / 1024 ** power)} ${units[power]}`;
}

export function ago(seconds) {
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return `${Math.floor(seconds / 3600)} h ago`;
}

export const node = (name, className, ...children) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
};

// The text of a descriptor in the explain form: a backslash before what is not a separator.
export function descriptorText(entries) {
  const escape = (text) => text.replaceAll(/[\\,=]/g, "\\$&");
  return entries.map(([key, value]) => `${escape(key)}=${escape(value)}`).join(",");
}

// Replaces the rows of a table. A column is `[title, class]`, a cell a text, a number or a node. The
// table itself stays, so that it keeps its place, its scroll position and the focus in it.
export function fill(parent, columns, rows, empty) {
  let table = parent.querySelector("table");
  if (!table) {
    const head = node("tr", "", ...columns.map(([title, className]) => {
      const cell = node("th", className, title);
      cell.scope = "col";
      return cell;
    }));
    table = node("table", "", node("thead", "", head), node("tbody"));
    parent.append(table);
  }
  const body = table.tBodies[0];
  if (rows.length === 0) {
    const cell = node("td", "muted", empty);
    cell.colSpan = columns.length;
    body.replaceChildren(node("tr", "", cell));
    return;
  }
  if (body.contains(document.activeElement)) return;
  body.replaceChildren(...rows.map((row) =>
    node("tr", "", ...row.map((cell, index) => node("td", columns[index][1], cell)))));
}
