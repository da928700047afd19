"""Settings by search: Optuna over a method's grid or ranges, judged on validation data alone."""

from ciga.runs.tune.search import tune, tune_methods, validation_score
from ciga.runs.tune.space import Search, searches
from ciga.runs.tune.study import counts, write_settings

__all__ = ["Search", "counts", "searches", "tune", "tune_methods", "validation_score", "write_settings"]
