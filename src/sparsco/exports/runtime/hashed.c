static uint32_t P_column_of(uint64_t key) {
  uint32_t h = (uint32_t)key;
  return (h < 0x80000000u ? h : 0u - h) & (uint32_t)((((uint64_t)1) << P_BITS) - 1);
}

/* Add the feature of a name by its hash, if its column has a weight. */
static void P_add_key(uint64_t key, double value, double *scores) {
  int positive = (uint32_t)key < 0x80000000u;
  int64_t column = (int64_t)P_column_of(key);
  size_t low = 0, high = P_KEYS;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (P_columns[middle] < column) low = middle + 1;
    else high = middle;
  }
  if (low < P_KEYS && P_columns[low] == column) P_add(low, positive || !P_SIGNED ? value : -value, scores);
}
