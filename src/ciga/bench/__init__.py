"""The paper's tables and figures: what they are made of, running it, and showing what came out."""
