"""Whole programs in one kernel each, beside the same program with a launch for each step.

`python -m examples.applications` runs them all, checks both ways against a third one in NumPy or Python, and prints what a
step costs either way. `python -m benchmarks.applications` measures them over sizes.
"""

from examples.applications.bitonic import Bitonic
from examples.applications.colouring import Colouring
from examples.applications.common import Application
from examples.applications.components import Components
from examples.applications.decoding import Decoding
from examples.applications.gradients import ConjugateGradients
from examples.applications.independent import Independent
from examples.applications.jacobi import Jacobi
from examples.applications.life import Life
from examples.applications.pagerank import PageRank
from examples.applications.paths import Paths
from examples.applications.search import Search
from examples.applications.triangular import Triangular

ALL: dict[str, type[Application]] = {
    made.name: made
    for made in (
        Search,
        Paths,
        Components,
        Independent,
        Colouring,
        PageRank,
        ConjugateGradients,
        Jacobi,
        Life,
        Bitonic,
        Triangular,
        Decoding,
    )
}
