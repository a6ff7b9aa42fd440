const scrambled = (k) => {
  k = Math.imul(k, 0xcc9e2d51);
  return Math.imul((k << 15) | (k >>> 17), 0x1b873593);
};

/* MurmurHash3 (32 bits, x86) of bytes. */
function murmur3(raw, seed) {
  const whole = raw.length & ~3;
  let h = seed;
  for (let at = 0; at < whole; at += 4) {
    h ^= scrambled(raw[at] | (raw[at + 1] << 8) | (raw[at + 2] << 16) | (raw[at + 3] << 24));
    h = (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
  }
  let rest = 0;
  for (let at = raw.length - 1; at >= whole; at--) rest = (rest << 8) | raw[at];
  h ^= scrambled(rest) ^ raw.length;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

const encoder = new TextEncoder();
const featureOfColumn = new Map(model.hash ? model.hash.features : []);

const columnOf = (h) => (h < 2 ** 31 ? h : 2 ** 32 - h) % 2 ** model.hash.bits;

function hashedTerm(name) {
  const h = murmur3(encoder.encode(name), model.hash.seed);
  const feature = featureOfColumn.get(columnOf(h));
  return feature === undefined ? undefined : [feature, h < 2 ** 31 || !model.hash.signed ? 1 : -1];
}

/* What the frequency of a word is found by: its column, or 62 bits of two hashes as hexadecimal digits. */
function documentKey(name, seed) {
  const raw = encoder.encode(name);
  if (model.hash) return columnOf(murmur3(raw, model.hash.seed));
  const hex = (h) => h.toString(16).padStart(8, "0");
  return hex(murmur3(raw, (seed ^ 0x9747b28c) >>> 0) & 0x3fffffff) + hex(murmur3(raw, seed));
}
