"""Python imports this at its start where the folder is on PYTHONPATH: workers of an attacked command."""

from faults.strike import from_environment

from_environment()
