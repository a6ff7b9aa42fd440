typedef struct { const char *bytes; size_t length, feature; } P_entry;

/* Return the place of a text in a sorted table of n texts; n if it is not there. */
static size_t P_find(const P_entry *table, size_t n, const char *bytes, size_t length) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = (low + high) / 2, own = table[middle].length;
    int order = memcmp(table[middle].bytes, bytes, own < length ? own : length);
    if (order == 0 && own == length) return middle;
    if (order < 0 || (order == 0 && own < length)) low = middle + 1;
    else high = middle;
  }
  return n;
}
