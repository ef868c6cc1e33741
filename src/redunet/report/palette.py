"""Colours, markers and dashes, the same in the figures and on the page."""

from __future__ import annotations

# Okabe and Ito's colours, told apart by colour-blind readers; each line has its marker too.
OURS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "v"))
RIVALS = (("#CC79A7", "v"), ("#E69F00", "s"), ("#56B4E9", "^"), ("#8a6d3b", "P"))
METHODS = {
    "redunet": ("#0072B2", "o"),
    "finetune": ("#8a8f98", "x"),
    "lwf": ("#E69F00", "v"),
    "ewc": ("#D55E00", "P"),
    "si": ("#CC79A7", "X"),
    "icarl": ("#D55E00", "s"),
    "er": ("#E69F00", "D"),
    "derpp": ("#CC79A7", "^"),
    "subspace": ("#8a8f98", "s"),
    "ncm": ("#56B4E9", "<"),
    "lda": ("#009E73", ">"),
    "ridge": ("#8a6d3b", "h"),
    "qda": ("#117a8b", "p"),
}
RATES = {"R": ("#56B4E9", "--"), "R_c": ("#D55E00", "-."), "delta_R": ("#0072B2", "-")}
CLASSES = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7",
    "#56B4E9", "#8a6d3b", "#8a8f98", "#117a8b", "#b5a800",
)  # fmt: skip
KEEP_EXEMPLARS = frozenset({"iCaRL", "ER", "DER++"})
