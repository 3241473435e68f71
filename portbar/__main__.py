"""`python -m portbar` is the `portbar` command."""

from portbar.cli import main

if __name__ == "__main__":
    main()
