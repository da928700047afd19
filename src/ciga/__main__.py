"""`python -m ciga` is `ciga`."""

from ciga.cli import main

if __name__ == "__main__":
    main()
