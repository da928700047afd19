"""Models of one's own data: fit, save, load, predict, export."""
