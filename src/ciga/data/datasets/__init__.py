"""The datasets, one file per family. Every module here is imported by the registry."""
