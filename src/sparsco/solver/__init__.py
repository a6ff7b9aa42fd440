"""Exact solutions on rows in memory: elastic nets by warm-started prox-Newton steps, from strength to strength."""
