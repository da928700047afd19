"""The attack: signals, full disks, damaged files, wrong command lines and broken clusters.

`make faults` runs everything (under an hour), `make faults-quick` a part of it (under three minutes).
"""
