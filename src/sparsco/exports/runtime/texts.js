for (const part of model.parts) {
  if (part.terms) part.terms = new Map(part.terms);
  if (part.documents) part.documents = new Map(part.documents);
}

function addText(part, text, found) {
  if (typeof text !== "string") throw new TypeError("give a text, not " + String(text) + ".");
  const [values, norm] = textValues(text, part);
  for (const [name, value] of values) {
    const term = model.hash ? hashedTerm(part.prefix + name) : part.terms.get(name);
    if (term) found[term[0]] += (term[1] * value) / norm;
  }
}
