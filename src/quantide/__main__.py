"""Entry point of `python -m quantide`, the same as the command `quantide`."""

import sys

from quantide.cli import main

if __name__ == "__main__":
    sys.exit(main())
