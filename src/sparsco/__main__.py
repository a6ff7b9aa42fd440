"""``python -m sparsco`` and the command ``sparsco``."""

import signal


def run() -> None:
    """Run the command line; until it is loaded Ctrl-C ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from . import cli

    cli.run()


if __name__ == "__main__":
    run()
