"""What `ciga data check` finds in a dataset."""
