"""How files of tables, molecules, graphs and sentences are read."""
