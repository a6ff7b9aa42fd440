const entry = (x, key) => (x instanceof Map ? x.get(key) : Object.hasOwn(x, key) ? x[key] : undefined);

/* A row is an array of all columns, or an object or a Map from columns, by number or name, to values. */
function featureValues(x) {
  const isArray = Array.isArray(x) || ArrayBuffer.isView(x);
  return model.features.map(({ name, column }) => {
    const value = isArray ? x[column - model.first] : entry(x, column) ?? entry(x, name) ?? 0;
    return checked(value, "column " + name);
  });
}
