"""What tests share: dense recursions, plain readings, generated streams, tables of cases."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
