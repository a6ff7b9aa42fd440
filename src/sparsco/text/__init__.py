"""Texts as features: words, phrases and n-grams of characters, and their fingerprints."""
