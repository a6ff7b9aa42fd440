"""Helpers without mathematics: folders, threads, progress, warnings, atomic files, HTML pages, stored results."""
