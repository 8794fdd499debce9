"""`python -m mmprep` is `mmprep`."""

from mmprep.cli.main import main

if __name__ == "__main__":
    main()
