typedef struct { uint64_t key; size_t feature; } P_place;

/* Return where a key is in a sorted table of n keys; n if it is not there. */
static size_t P_find_key(const P_place *table, size_t n, uint64_t key) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table[middle].key < key) low = middle + 1;
    else high = middle;
  }
  return low < n && table[low].key == key ? low : n;
}
