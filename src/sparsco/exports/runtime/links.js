const logistic = (x) => 1 / (1 + Math.exp(-x));
const sum = (list) => list.reduce((total, value) => total + value, 0);

function shares(link, scores) {
  if (link === "one") return [1];
  if (link === "logistic") return [logistic(-scores[0]), logistic(scores[0])];
  let parts = scores.map(logistic);
  if (link === "softmax") {
    const top = Math.max(...scores);
    parts = scores.map((score) => Math.exp(score - top));
  }
  const total = sum(parts);
  return parts.map((part) => (total > 0 ? part / total : 1 / parts.length));
}

function logOdds(scores) {
  return scores.map((score, k) => {
    const others = scores.filter((_, j) => j !== k);
    const top = Math.max(...others);
    return score - top - Math.log(sum(others.map((other) => Math.exp(other - top))));
  });
}

function classProbabilities(scores) {
  const { link, platt, class_weights: weights } = model;
  if (platt !== null && link !== "one") {
    const each = link === "softmax" ? logOdds(scores) : scores;
    const scaled = each.map((score, k) => platt[0][k] * score + platt[1][k]);
    return shares(scaled.length === 1 ? "logistic" : "one-vs-rest", scaled);
  }
  const found = shares(link, scores);
  if (weights === null || link === "one") return found;
  const parts = found.map((share, k) => share / weights[k]);
  const total = sum(parts);
  return parts.map((part) => part / total);
}

function checked(value, what) {
  if (typeof value === "boolean") value = Number(value);
  if (typeof value !== "number" || !(Math.abs(value) <= 1e75)) {
    throw new RangeError(what + " has " + String(value) + ": give a finite number of at most 1e75.");
  }
  return value;
}
