export const features = model.features.map(({ name }) => name);
export const classes = model.classes;

/* The scores of a row by the values of the selected features, in their order. */
export function dense(values) {
  const found = [...model.intercepts];
  model.features.forEach(({ weights }, j) => weights.forEach((weight, k) => (found[k] += weight * values[j])));
  return found;
}

/* The scores of a row, one for each output. */
export function scores(x) {
  return dense(featureValues(x));
}

/* The label of a row, or the number or numbers that a regression predicts. */
export function predict(x) {
  const found = scores(x);
  if (classes === null) {
    const numbers = model.link === "exp" ? found.map(Math.exp) : found;
    return model.vector ? numbers : numbers[0];
  }
  if (found.length === 1) return classes[classes.length === 2 && found[0] > 0 ? 1 : 0];
  return classes[found.indexOf(Math.max(...found))];
}

/* The probability of each class. */
export function probabilities(x) {
  if (classes === null || model.link === "none") throw new Error("this model has no probabilities.");
  return classProbabilities(scores(x));
}
