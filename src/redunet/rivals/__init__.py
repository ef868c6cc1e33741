"""What others do, one method a file."""

from typing import Any

from redunet.rivals.lda import LinearDiscriminant
from redunet.rivals.ncm import NearestClassMean
from redunet.rivals.qda import QuadraticDiscriminant
from redunet.rivals.ridge import RidgeToOneHot

CLOSED_FORM: dict[str, type[Any]] = {
    cls.kind: cls
    for cls in (NearestClassMean, LinearDiscriminant, RidgeToOneHot, QuadraticDiscriminant)
}
"""Functions of the class moments, by the names that the commands know."""
