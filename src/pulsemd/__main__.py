"""``python -m pulsemd``: the command ``pulsemd``."""

from pulsemd.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
