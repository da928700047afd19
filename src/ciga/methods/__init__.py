"""Methods: the contract, its bases, and one file for each method.

What a method of your own needs is importable from here. The methods themselves are not: importing this
package imports none of them, the registry does.
"""

from ciga.methods.base import Context, Inference, Method, Step, cross_entropy, register
from ciga.methods.environments import EnvironmentMethod
from ciga.methods.extraction import ExtractingMethod
from ciga.options import tunable

__all__ = [
    "Context",
    "EnvironmentMethod",
    "ExtractingMethod",
    "Inference",
    "Method",
    "Step",
    "cross_entropy",
    "register",
    "tunable",
]
