"""The entry point of ``python -m sparsco.cli``."""

from . import run

if __name__ == "__main__":
    run()
