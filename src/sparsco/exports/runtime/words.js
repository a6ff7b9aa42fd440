const SPACE = 1, LETTER = 2, ALONE = 3, DROPPED = 4, APOSTROPHE = 5;

const characterTables = (model.characters || []).map(({ classes, folds }) => {
  const kinds = new Uint8Array(1 << 17), folded = new Map();
  for (let k = 0, at = 0; k < classes.length; k += 2) {
    kinds.fill(classes[k + 1], at, at + classes[k]);
    at += classes[k];
  }
  for (let k = 0; k < folds.length; k += 4) {
    const [start, count, step, by] = folds.slice(k, k + 4);
    for (let n = 0; n < count; n++) folded.set(start + n * step, String.fromCodePoint(start + n * step + by));
  }
  return { kinds, folded };
});

function kindOf(code, kinds) {
  if (code < kinds.length) return kinds[code];
  return code >= 0x20000 && code < 0x40000 ? ALONE : code >= 0xe0000 && code < 0xe1000 ? DROPPED : 0;
}

/* Whether one or two Latin letters stand here, and behind them nothing that is a part of a word. */
function joins(characters, at, kinds) {
  const isLatin = (character) => character !== undefined && /^[A-Za-z]$/.test(character);
  if (!isLatin(characters[at])) return false;
  at += isLatin(characters[at + 1]) ? 2 : 1;
  return at >= characters.length || kindOf(characters[at].codePointAt(0), kinds) !== LETTER;
}

function wordsOf(characters, { kinds, folded }) {
  const found = [];
  let word = "";
  const end = () => {
    if (word) found.push(word);
    word = "";
  };
  characters.forEach((character, at) => {
    const code = character.codePointAt(0), kind = kindOf(code, kinds);
    if (kind === LETTER) {
      word += folded.get(code) ?? character;
    } else if (kind === ALONE) {
      end();
      found.push(folded.get(code) ?? character);
    } else if (kind !== DROPPED && word) {
      if (kind === APOSTROPHE && joins(characters, at + 1, kinds)) word += "'";
      else end();
    }
  });
  end();
  return found;
}

function charactersOf(characters, { kinds, folded }) {
  const found = [];
  let waits = false;
  for (const character of characters) {
    const code = character.codePointAt(0), kind = kindOf(code, kinds);
    if (kind === SPACE) {
      waits = found.length > 0;
    } else if (kind !== DROPPED) {
      if (waits) found.push(" ");
      waits = false;
      found.push(folded.get(code) ?? character);
    }
  }
  return found;
}

function textValues(text, part) {
  const characters = Array.from(text), isWord = part.analyzer === "word", [low, high] = part.ngrams;
  if (characters.some((character) => character.length === 1 && character >= "\ud800" && character <= "\udfff")) {
    throw new RangeError("the text has half a character.");
  }
  const tokens = (isWord ? wordsOf : charactersOf)(characters, characterTables[part.characters]);
  const counts = new Map(), add = (name) => counts.set(name, (counts.get(name) ?? 0) + 1);
  tokens.forEach((token, start) => {
    for (let stop = start + low; stop <= Math.min(start + high, tokens.length); stop++) {
      add(tokens.slice(start, stop).join(isWord ? " " : ""));
    }
    if (part.shapes && isWord && low === 1 && /[0-9]/.test(token)) add(token.replace(/[0-9]/g, "#"));
  });
  const rules = {
    count: (count) => count,
    binary: () => 1,
    log: (count) => 1 + Math.log(count),
    tfidf: (count, name) => {
      const documents = part.documents.get(documentKey(part.prefix + name, part.seed)) ?? 0;
      return count * (Math.log((1 + part.texts) / (1 + documents)) + 1);
    },
  };
  let square = 0;
  for (const [name, count] of counts) {
    const value = rules[part.weighting](count, name);
    counts.set(name, value);
    square += value * value;
  }
  return [counts, part.norm && square > 0 ? Math.sqrt(square) : 1];
}
