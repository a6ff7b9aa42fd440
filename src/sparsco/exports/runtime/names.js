const termOfName = new Map(model.terms);

/* A row is an object or a Map from names to values, or an array of names. */
function featureValues(x) {
  const found = model.features.map(() => 0);
  const entries = Array.isArray(x) ? x.map((name) => [name, 1]) : x instanceof Map ? x : Object.entries(x);
  for (const [key, cell] of entries) {
    if (cell === null || cell === undefined) continue;
    const isText = typeof cell === "string";
    const name = isText ? key + "=" + cell : key;
    const value = isText ? 1 : checked(cell, "feature " + name);
    const term = model.hash ? hashedTerm(name) : termOfName.get(name);
    if (term) found[term[0]] += term[1] * value;
  }
  return found;
}
