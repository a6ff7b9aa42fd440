/* Write the characters of a text, one blank for each run of white space between others; return 0 if it is not UTF-8. */
static int P_letters(const unsigned char *p, size_t size, const P_characters *characters, P_tokens *to) {
  const unsigned char *end = p + size;
  size_t at = 0;
  int waits = 0;
  to->n = 0;
  while (p < end) {
    uint32_t code;
    size_t length = P_decoded(p, end, &code);
    int kind;
    if (!length) return 0;
    kind = P_kind(code, characters);
    p += length;
    if (kind == P_SPACE) {
      waits = to->n > 0;
    } else if (kind != P_DROPPED) {
      if (waits) {
        to->starts[to->n] = at;
        to->bytes[at++] = 32;
        to->ends[to->n++] = at;
        waits = 0;
      }
      to->starts[to->n] = at;
      at += P_put(to->bytes + at, P_folded(code, characters));
      to->ends[to->n++] = at;
    }
  }
  return 1;
}
