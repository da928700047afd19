"""Training one network: the loop, its schedule, and what it saves."""
