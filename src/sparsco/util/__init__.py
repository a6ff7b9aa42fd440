"""Helpers without mathematics: folders, threads, progress, warnings, files that appear whole, pages, kept results."""
