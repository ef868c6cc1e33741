"""What others do, one method a file."""

from typing import Any

from redunet.rivals.lda import LinearDiscriminant
from redunet.rivals.ncm import NearestClassMean
from redunet.rivals.qda import QuadraticDiscriminant
from redunet.rivals.ridge import RidgeToOneHot

CLOSED_FORM: dict[str, type[Any]] = {
    "ncm": NearestClassMean,
    "lda": LinearDiscriminant,
    "ridge": RidgeToOneHot,
    "qda": QuadraticDiscriminant,
}
