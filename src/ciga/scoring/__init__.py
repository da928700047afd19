"""How runs are judged: metrics, selection rules, the probe of G_s, statistics over seeds."""
