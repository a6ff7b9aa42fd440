/* The distinct n-grams of a text: keys and counts, and a hash table of their numbers, counted from 1. */
typedef struct { uint64_t *keys, *counts, *slots; size_t n; uint64_t mask; } P_counts;

static void P_count(P_counts *to, uint64_t key) {
  uint64_t slot = (key ^ key >> 29) & to->mask;
  while (to->slots[slot] && to->keys[to->slots[slot] - 1] != key) slot = (slot + 1) & to->mask;
  if (to->slots[slot]) {
    to->counts[to->slots[slot] - 1]++;
    return;
  }
  to->keys[to->n] = key;
  to->counts[to->n] = 1;
  to->slots[slot] = ++to->n;
}

static uint64_t P_slots(size_t entries) {
  uint64_t size = 16;
  while (size < 2 * (uint64_t)entries) size *= 2;
  return size;
}

/* Divide a workspace for texts of at most this many bytes. */
static void P_divide(uint64_t *workspace, size_t length, P_tokens *tokens, P_counts *counts) {
  size_t entries = length * P_NGRAMS, slots = (size_t)P_slots(entries), i;
  counts->keys = workspace;
  counts->counts = counts->keys + entries;
  counts->slots = counts->counts + entries;
  counts->mask = slots - 1;
  counts->n = 0;
  tokens->starts = counts->slots + slots;
  tokens->ends = tokens->starts + length;
  tokens->bytes = (unsigned char *)(tokens->ends + length);
  for (i = 0; i < slots; i++) counts->slots[i] = 0;
}

static int P_has_digit(const unsigned char *p, size_t size) {
  size_t i;
  for (i = 0; i < size; i++) {
    if (p[i] >= 48 && p[i] <= 57) return 1;
  }
  return 0;
}

typedef struct {
  const char *prefix;
  size_t prefix_length, low, high;
  int shapes, weighting, norm; /* weighting: 0 counts, 1 ones, 2 one plus the logarithm, 3 tf-idf */
  int (*split)(const unsigned char *, size_t, const P_characters *, P_tokens *);
  const P_characters *characters;
  const P_place *places, *documents;
  size_t n_places, n_documents;
  double texts;
} P_rule;

static double P_value(const P_rule *rule, uint64_t key, uint64_t count) {
  size_t place;
  if (rule->weighting == 1) return 1.0;
  if (rule->weighting == 2) return 1.0 + log((double)count);
  if (rule->weighting == 0) return (double)count;
  place = P_find_key(rule->documents, rule->n_documents, P_DOCUMENT_KEY);
  key = place < rule->n_documents ? rule->documents[place].feature : 0;
  return (double)count * (log((1.0 + rule->texts) / (1.0 + (double)key)) + 1.0);
}

/* Add the features of a text to the scores; return 0 if it is not UTF-8. */
static int P_add_text(const P_rule *rule, const char *text, size_t length, uint64_t *workspace, double *scores) {
  P_tokens tokens;
  P_counts counts;
  double square = 0.0, norm;
  size_t i, j, k;
  P_divide(workspace, length, &tokens, &counts);
  if (!rule->split((const unsigned char *)text, length, rule->characters, &tokens)) return 0;
  for (j = 0; j < tokens.n; j++) {
    const unsigned char *start = tokens.bytes + tokens.starts[j];
    size_t own = (size_t)(tokens.ends[j] - tokens.starts[j]);
    for (k = j + rule->low - 1; k < j + rule->high && k < tokens.n; k++) {
      size_t size = (size_t)(tokens.ends[k] - tokens.starts[j]);
      P_count(&counts, P_key(rule->prefix, rule->prefix_length, start, size, 0));
    }
    if (rule->shapes && P_has_digit(start, own)) {
      P_count(&counts, P_key(rule->prefix, rule->prefix_length, start, own, 1));
    }
  }
  for (i = 0; i < counts.n; i++) {
    double value = P_value(rule, counts.keys[i], counts.counts[i]);
    square += value * value;
  }
  norm = rule->norm && square > 0.0 ? sqrt(square) : 1.0;
  for (i = 0; i < counts.n; i++) {
    double value = P_value(rule, counts.keys[i], counts.counts[i]) / norm;
    P_ADD_KEY;
  }
  return 1;
}
