/* ---- MurmurHash3 of names ---- */

typedef struct { uint32_t low, high, block; size_t size; } P_hash;

static uint32_t P_turned(uint32_t x, int by) { return x << by | x >> (32 - by); }

static uint32_t P_scrambled(uint32_t k) { return P_turned(k * 0xCC9E2D51u, 15) * 0x1B873593u; }

static uint32_t P_stirred(uint32_t h) { return P_turned(h, 13) * 5u + 0xE6546B64u; }

static uint32_t P_finished(uint32_t h) {
  h = (h ^ h >> 16) * 0x85EBCA6Bu;
  h = (h ^ h >> 13) * 0xC2B2AE35u;
  return h ^ h >> 16;
}

static void P_hash_bytes(P_hash *hash, const unsigned char *bytes, size_t size, int as_shape) {
  size_t i;
  for (i = 0; i < size; i++) {
    uint32_t b = as_shape && bytes[i] >= 48 && bytes[i] <= 57 ? 35u : bytes[i];
    hash->block |= b << 8 * (hash->size & 3);
    hash->size++;
    if ((hash->size & 3) == 0) {
      uint32_t k = P_scrambled(hash->block);
      hash->low = P_stirred(hash->low ^ k);
      hash->high = P_stirred(hash->high ^ k);
      hash->block = 0;
    }
  }
}

/* 64 bits for a name: two hashes of a prefix and the bytes behind it. */
static uint64_t P_key(const char *prefix, size_t length, const unsigned char *bytes, size_t size, int as_shape) {
  P_hash hash = { P_SEED, P_SEED ^ 0x9747B28Cu, 0, 0 };
  uint32_t k;
  P_hash_bytes(&hash, (const unsigned char *)prefix, length, 0);
  P_hash_bytes(&hash, bytes, size, as_shape);
  k = P_scrambled(hash.block) ^ (uint32_t)hash.size;
  return P_finished(hash.low ^ k) | (uint64_t)P_finished(hash.high ^ k) << 32;
}
