"""Where the commands of the book have gone."""

import sys

if __name__ == "__main__":
    sys.exit("The book's commands begin with `python -m book` now, such as `python -m book run 01 -p epsilon 0.5`.")
