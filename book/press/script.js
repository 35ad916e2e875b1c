  // What Python brings along, for functions that book/press/to_script.py translates.
  const truthy = (value) => (value !== null && typeof value === "object" ? Object.keys(value).length > 0 : Boolean(value));
  const either = (first, ...rest) => rest.reduce((value, next) => (truthy(value) ? value : next()), first);
  const both = (first, ...rest) => rest.reduce((value, next) => (truthy(value) ? next() : value), first);
  const holds = (some, one) => (Array.isArray(some) ? some.includes(one) : Object.hasOwn(some, one));
  const getOr = (some, key, other = null) => (Object.hasOwn(some, key) ? some[key] : other);
  const len = (some) => some.length;
  const str = String, float = Number, { abs, max } = Math;
  const all = (some) => some.every(truthy);
  const list = (value) => (Array.isArray(value) ? value : [value]);
  const before = (a, b) => {
    const [first, second] = [list(a), list(b)];
    const place = first.findIndex((value, at) => value !== second[at]);
    return place >= 0 && first[place] < second[place];
  };
  const sorted = (some, { key = (one) => one } = {}) =>
    [...some].sort((a, b) => (before(key(a), key(b)) ? -1 : before(key(b), key(a)) ? 1 : 0));
  const min = (some, ...rest) => {
    if (!Array.isArray(some)) return Math.min(some, ...rest);
    const { key = (one) => one, default: other } = rest[0] ?? {};
    return some.length ? some.reduce((best, one) => (before(key(one), key(best)) ? one : best)) : other;
  };
  // Python rounds halves to even.
  const round = (value) => (Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value)) + 0; // no -0
  const fixed = (value, digits) => {
    const whole = value * 10 ** digits;
    return Math.abs(whole % 1) === 0.5 && whole / 10 ** digits === value ? (round(whole) / 10 ** digits).toFixed(digits) : value.toFixed(digits);
  };
  const general = (value, digits) => {
    if (value === 0) return "0";
    const [number, power] = value.toExponential(digits - 1).split("e");
    const plain = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (power >= -4 && power < digits) return plain(fixed(value, digits - 1 - power));
    return `${plain(number)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  };
  const shown = (value, how) => {
    if (how === "") return value === null ? "None" : String(value);
    if (how === ",") return value.toLocaleString("en-US");
    const [, digits, kind] = /^(?:\.(\d+))?([fg])$/.exec(how);
    return kind === "g" ? general(value, Number(digits ?? 6)) : fixed(value, Number(digits));
  };
  const fill = (text, gaps) => text.replace(/\$([a-z_]+)/g, (_, name) => gaps[name]);
