"""Every method, one file each. Importing this package imports none of them: the registry does."""
