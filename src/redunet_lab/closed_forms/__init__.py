"""Closed-form classifiers of other papers on continual learning, on class moments."""

from redunet.estimators import CLOSED_FORM
from redunet_lab.closed_forms.air import AIR
from redunet_lab.closed_forms.fecam import FeCAM
from redunet_lab.closed_forms.klda import KLDA
from redunet_lab.closed_forms.ranpac import RanPAC
from redunet_lab.closed_forms.slda import SLDA

__all__ = ["AIR", "CLOSED_FORMS", "KLDA", "SLDA", "FeCAM", "RanPAC"]

CLOSED_FORMS = CLOSED_FORM | {one.kind: one for one in (SLDA, AIR, FeCAM, RanPAC, KLDA)}
"""All closed-form methods by the name that records have for them, in the order of tables."""
