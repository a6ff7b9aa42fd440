/* ---- words, characters and n-grams of texts ---- */

enum { P_OTHER, P_SPACE, P_LETTER, P_ALONE, P_DROPPED, P_APOSTROPHE };

typedef struct { uint32_t start, count, step; int32_t by; } P_fold;

typedef struct { const uint32_t *runs; size_t n_runs; const P_fold *folds; size_t n_folds; } P_characters;

static int P_kind(uint32_t code, const P_characters *characters) {
  size_t low = 0, high = characters->n_runs;
  if (code >= 0x20000) {
    if (code < 0x40000) return P_ALONE;
    return code >= 0xE0000 && code < 0xE1000 ? P_DROPPED : P_OTHER;
  }
  while (high - low > 1) { /* a run is its first character and, in the last three bits, its class */
    size_t middle = (low + high) / 2;
    if (characters->runs[middle] >> 3 <= code) low = middle;
    else high = middle;
  }
  return (int)(characters->runs[low] & 7);
}

static uint32_t P_folded(uint32_t code, const P_characters *characters) {
  size_t low = 0, high = characters->n_folds;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (characters->folds[middle].start <= code) low = middle + 1;
    else high = middle;
  }
  if (low > 0) {
    const P_fold *fold = &characters->folds[low - 1];
    uint32_t past = code - fold->start;
    if (past < fold->count * fold->step && past % fold->step == 0) return (uint32_t)((int32_t)code + fold->by);
  }
  return code;
}

/* Return the number of bytes of the character at p; 0 if they are not UTF-8. */
static size_t P_decoded(const unsigned char *p, const unsigned char *end, uint32_t *code) {
  size_t left = (size_t)(end - p), n, i;
  uint32_t a = p[0];
  if (a < 0x80) {
    *code = a;
    return 1;
  }
  n = a < 0xE0 ? 2 : a < 0xF0 ? 3 : 4;
  if (a < 0xC2 || a >= 0xF5 || left < n) return 0;
  a &= n == 2 ? 31 : n == 3 ? 15 : 7;
  for (i = 1; i < n; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0;
    a = a << 6 | (p[i] & 63u);
  }
  *code = a;
  if (n == 3 && (a < 0x800 || (a >= 0xD800 && a < 0xE000))) return 0;
  return n == 4 && (a < 0x10000 || a >= 0x110000) ? 0 : n;
}

static size_t P_put(unsigned char *out, uint32_t code) {
  if (code < 0x80) {
    out[0] = (unsigned char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (unsigned char)(0xC0 | code >> 6);
    out[1] = (unsigned char)(0x80 | (code & 63));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (unsigned char)(0xE0 | code >> 12);
    out[1] = (unsigned char)(0x80 | (code >> 6 & 63));
    out[2] = (unsigned char)(0x80 | (code & 63));
    return 3;
  }
  out[0] = (unsigned char)(0xF0 | code >> 18);
  out[1] = (unsigned char)(0x80 | (code >> 12 & 63));
  out[2] = (unsigned char)(0x80 | (code >> 6 & 63));
  out[3] = (unsigned char)(0x80 | (code & 63));
  return 4;
}

typedef struct { unsigned char *bytes; uint64_t *starts, *ends; size_t n; } P_tokens;
