static int P_is_latin(unsigned char b) { return (b | 32) >= 97 && (b | 32) <= 122; }

/* Whether one or two Latin letters stand here, and behind them nothing that is a part of a word. */
static int P_joins(const unsigned char *p, const unsigned char *end, const P_characters *characters) {
  uint32_t code;
  if (p >= end || !P_is_latin(*p)) return 0;
  p++;
  if (p < end && P_is_latin(*p)) p++;
  if (p >= end || !P_decoded(p, end, &code)) return 1;
  return code >= 0x20000 || P_kind(code, characters) != P_LETTER;
}

/* Write the words of a text, with a blank between them; return 0 if it is not UTF-8. */
static int P_words(const unsigned char *p, size_t size, const P_characters *characters, P_tokens *to) {
  const unsigned char *end = p + size;
  size_t at = 0;
  int inside = 0;
  to->n = 0;
  while (p < end) {
    uint32_t code;
    size_t length = P_decoded(p, end, &code);
    int kind;
    if (!length) return 0;
    kind = P_kind(code, characters);
    p += length;
    if (kind == P_LETTER || kind == P_ALONE) {
      if (inside && kind == P_ALONE) {
        to->ends[to->n++] = at;
        inside = 0;
      }
      if (!inside) {
        if (at) to->bytes[at++] = 32;
        to->starts[to->n] = at;
        inside = 1;
      }
      at += P_put(to->bytes + at, P_folded(code, characters));
      if (kind == P_ALONE) {
        to->ends[to->n++] = at;
        inside = 0;
      }
    } else if (kind != P_DROPPED && inside) {
      if (kind == P_APOSTROPHE && P_joins(p, end, characters)) {
        to->bytes[at++] = 39;
      } else {
        to->ends[to->n++] = at;
        inside = 0;
      }
    }
  }
  if (inside) to->ends[to->n++] = at;
  return 1;
}
