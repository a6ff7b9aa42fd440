const DAY = 86400000;
const MOMENT =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)?)?$/;
const TRUE = ["true", "True", "TRUE", "1"], FALSE = ["false", "False", "FALSE", "0"];

for (const part of model.parts) {
  if (part.pooled) part.pooled = new Set(part.pooled);
}

function isMissing(cell) {
  return cell === null || cell === undefined || Number.isNaN(cell) || (cell instanceof Date && Number.isNaN(+cell));
}

/* The text of a category; a whole number has no decimal point. */
function category(cell) {
  if (cell === true || cell === false) return cell ? "True" : "False";
  if (typeof cell !== "number") return String(cell);
  if (Number.isInteger(cell)) return BigInt(cell).toString();
  if (!Number.isFinite(cell)) return cell > 0 ? "inf" : "-inf";
  return Math.abs(cell) < 1e-4 ? cell.toExponential().replace(/e-(\d)$/, "e-0$1") : String(cell);
}

/* Days since 1970 and the part of a day, of a Date or of a text such as 2021-03-04 10:30:00. */
function moment(cell, name) {
  if (cell instanceof Date) {
    const days = Math.floor(+cell / DAY);
    return [days, (+cell - days * DAY) / DAY];
  }
  const found = typeof cell === "string" ? MOMENT.exec(cell) : null;
  const wrong = () => new RangeError("column " + name + " has " + String(cell) + ", which is no date.");
  if (found === null) throw wrong();
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map((each) => Number(each ?? 0));
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isReal = date.getUTCMonth() === month - 1 && date.getUTCDate() === day && year > 0;
  if (!isReal || hour > 23 || minute > 59 || second > 59) throw wrong();
  const shift = found[9] ? (found[9] === "+" ? 1 : -1) * (Number(found[10]) * 60 + Number(found[11] ?? 0)) : 0;
  const seconds = (hour * 60 + minute - shift) * 60 + second, later = Math.floor(seconds / 86400);
  const micros = (seconds - later * 86400) * 1e6 + Number((found[7] ?? "").padEnd(6, "0"));
  return [Math.round(+date / DAY) + later, micros / (DAY * 1000)];
}

function ofCategory(part, text) {
  if (part.marks.includes(text)) return part.hole;
  if (part.terms.has(text)) return part.terms.get(text);
  if (part.pooled.has(text) !== part.pools_others) return part.pool;
  return part.hashed ? hashedTerm(part.name + "=" + text) : null;
}

function truth(cell, name) {
  const value = TRUE.includes(cell) ? 1 : FALSE.includes(cell) ? 0 : checked(cell, "column " + name);
  if (value !== 0 && value !== 1) throw new RangeError("column " + name + " has " + value + ", not true or false.");
  return value;
}

/* A row is an object or a Map from columns to cells; a column that is not there is missing. */
function featureValues(x) {
  const found = model.features.map(() => 0);
  const add = (term, value) => {
    if (term) found[term[0]] += term[1] * value;
  };
  for (const part of model.parts) {
    const { name, kind } = part;
    const cell = x instanceof Map ? x.get(name) : Object.hasOwn(x, name) ? x[name] : undefined;
    if (isMissing(cell) || (kind !== "text" && part.marks.includes(cell))) {
      if (kind === "text") continue;
      if (kind !== "category") {
        if (part.fill === null) throw new RangeError("column " + name + " has no value: fill it in.");
        add(part.value, part.fill);
      }
      add(part.hole, 1);
    } else if (kind === "text") {
      addText(part, cell, found);
    } else if (kind === "category") {
      add(ofCategory(part, category(cell)), 1);
    } else if (kind === "date") {
      const [days, rest] = moment(cell, name);
      add(part.value, days - part.origin + rest);
      add(part.months[new Date(days * DAY).getUTCMonth()], 1);
      add(part.weekdays[(((days + 3) % 7) + 7) % 7], 1);
    } else {
      const value = kind === "boolean" ? truth(cell, name) : checked(cell, "column " + name);
      if (part.log && !(value > 0)) throw new RangeError("column " + name + " has " + value + ", which has no logarithm.");
      add(part.value, part.log ? Math.log(value) : value);
    }
  }
  return found;
}
