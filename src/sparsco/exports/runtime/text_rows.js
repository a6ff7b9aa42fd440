/* A row is a text; null and undefined have no words. */
function featureValues(x) {
  const found = model.features.map(() => 0);
  if (x !== null && x !== undefined) addText(model.parts[0], x, found);
  return found;
}
