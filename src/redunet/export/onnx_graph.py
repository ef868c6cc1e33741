"""ONNX models of PyTorch modules that use few kinds of operations.

PyTorch's own exporter takes many seconds for a network of fifty layers, needs two more packages,
makes several times as many nodes, and writes the names of source files into the model; so the
few kinds of operations that exported modules use are translated here, one by one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, fx, nn

from redunet._version import __version__
from redunet.core.moments import Label

OPSET, IR_VERSION = 18, 8
"""Read by ONNX Runtime from version 1.14 on."""

_DTYPES = {
    torch.float64: TensorProto.DOUBLE,
    torch.float32: TensorProto.FLOAT,
    torch.int64: TensorProto.INT64,
}


def onnx_model(
    module: nn.Module, input_shape: Sequence[int], labels: Sequence[Label], about: dict[str, str]
) -> onnx.ModelProto:
    """The ONNX model of a module that gives index, scores and probabilities."""
    graph = _Graph(module)
    index, scores, probabilities = graph.translate()
    kind = TensorProto.STRING if isinstance(labels[0], str) else TensorProto.INT64
    classes = np.array(labels, dtype=object if isinstance(labels[0], str) else np.int64)
    graph.constants.append(numpy_helper.from_array(classes, "classes"))
    graph.add("Gather", "classes", index, result="label", axis=0)
    for found, name in ((scores, "scores"), (probabilities, "probabilities")):
        graph.add("Identity", found, result=name)
    wide: list[str | int | None] = ["n", len(labels)]
    made = helper.make_graph(
        graph.nodes,
        "redunet",
        [helper.make_tensor_value_info("samples", TensorProto.DOUBLE, ["n", *input_shape])],
        [
            helper.make_tensor_value_info("label", kind, ["n"]),
            helper.make_tensor_value_info("scores", TensorProto.DOUBLE, wide),
            helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, wide),
        ],
        graph.constants,
    )
    model = helper.make_model(
        made,
        producer_name="redunet",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    helper.set_model_props(model, about)
    return model


class _Graph:
    """Nodes and constants of a module, translated operation by operation."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self._dtypes: dict[str, torch.dtype] = {}
        self._known: dict[Any, str] = {}

    def translate(self) -> tuple[str, ...]:
        """Add all operations; the names of the results."""
        results: tuple[str, ...] = ()
        for node in fx.Tracer().trace(self.module).nodes:
            if node.op == "placeholder":
                self._dtypes[node.name], self._known[node] = torch.float64, "samples"
                self._dtypes["samples"] = torch.float64
            elif node.op == "get_attr":
                self._known[node] = self._buffer(str(node.target))
            elif node.op == "output":
                results = tuple(self._known[one] for one in node.args[0])
            else:
                target = node.target if isinstance(node.target, str) else node.target.__name__
                # An operation in place is one whose result alone is used.
                translated = _TRANSLATIONS[target.rstrip("_")]
                self._known[node] = translated(self, *node.args, **node.kwargs)
        return results

    def add(self, kind: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """Add a node; the name of its result, which has the dtype of its first input."""
        name = result or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self._dtypes[name] = self._dtypes.get(inputs[0], torch.int64)
        return name

    def value(self, what: Any, like: torch.dtype = torch.float64) -> str:
        """The name of an operand: a result, or a number in the dtype of another one."""
        if isinstance(what, fx.Node):
            return self._known[what]
        return self.constant(torch.tensor(what, dtype=like))

    def constant(self, tensor: Tensor) -> str:
        """The name of a small constant, made once."""
        key = (tensor.dtype, tensor.shape, tuple(tensor.flatten().tolist()))
        if key not in self._known:
            self._known[key] = self._store(f"constant_{len(self.constants)}", tensor)
        return self._known[key]

    def dtype(self, name: str) -> torch.dtype:
        """The dtype of a result."""
        return self._dtypes[name]

    def set_dtype(self, name: str, dtype: torch.dtype) -> str:
        """Note that a result has another dtype; its name."""
        self._dtypes[name] = dtype
        return name

    def _buffer(self, path: str) -> str:
        if path not in self._known:
            self._known[path] = self._store(path, operator.attrgetter(path)(self.module))
        return self._known[path]

    def _store(self, name: str, tensor: Tensor) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(tensor), name))
        self._dtypes[name] = tensor.dtype
        return name


def _elementwise(kind: str) -> Callable[..., str]:
    """Of two operands, one of which may be a number."""

    def translate(graph: _Graph, one: Any, other: Any) -> str:
        known = one if isinstance(one, fx.Node) else other
        like = graph.dtype(graph.value(known))
        return graph.add(kind, graph.value(one, like), graph.value(other, like))

    return translate


def _of_one(kind: str) -> Callable[..., str]:
    return lambda graph, one: graph.add(kind, graph.value(one))


def _over(kind: str) -> Callable[..., str]:
    """A reduction over one dimension."""

    def translate(graph: _Graph, one: Any, dim: int, keepdim: bool = False) -> str:
        axes = graph.constant(torch.tensor([dim]))
        return graph.add(kind, graph.value(one), axes, keepdims=int(keepdim))

    return translate


def _matmul(graph: _Graph, one: Any, other: Any) -> str:
    return graph.add("MatMul", graph.value(one), graph.value(other))


def _linear(graph: _Graph, one: Any, weights: Any) -> str:
    return graph.add("Gemm", graph.value(one), graph.value(weights), transB=1)


def _reshape(graph: _Graph, one: Any, *shape: int) -> str:
    return graph.add("Reshape", graph.value(one), graph.constant(torch.tensor(shape)))


def _unsqueeze(graph: _Graph, one: Any, dim: int) -> str:
    return graph.add("Unsqueeze", graph.value(one), graph.constant(torch.tensor([dim])))


def _clamp(
    graph: _Graph,
    one: Any,
    min: float | None = None,  # noqa: A002
    max: float | None = None,  # noqa: A002
) -> str:
    name = graph.value(one)
    for kind, limit in (("Max", min), ("Min", max)):
        if limit is not None:
            name = graph.add(kind, name, graph.value(limit, graph.dtype(name)))
    return name


def _softmax(graph: _Graph, one: Any, dim: int) -> str:
    return graph.add("Softmax", graph.value(one), axis=dim)


def _permute(graph: _Graph, one: Any, *dims: int) -> str:
    return graph.add("Transpose", graph.value(one), perm=dims)


def _flip(graph: _Graph, one: Any, dim: int) -> str:
    last, before_first, axis, step = (
        graph.constant(torch.tensor([number])) for number in (-1, -(2**62), dim, -1)
    )
    return graph.add("Slice", graph.value(one), last, before_first, axis, step)


def _cat(graph: _Graph, parts: Sequence[Any], dim: int) -> str:
    return graph.add("Concat", *map(graph.value, parts), axis=dim)


def _index_select(graph: _Graph, one: Any, dim: int, index: Any) -> str:
    return graph.add("Gather", graph.value(one), graph.value(index), axis=dim)


def _pad(graph: _Graph, one: Any, pad: tuple[int, int], **_: Any) -> str:
    """Zeros before and after, along the last of two dimensions."""
    return graph.add("Pad", graph.value(one), graph.constant(torch.tensor([0, pad[0], 0, pad[1]])))


def _to(graph: _Graph, one: Any, dtype: torch.dtype) -> str:
    name = graph.value(one)
    if graph.dtype(name) == dtype:
        return name
    return graph.set_dtype(graph.add("Cast", name, to=_DTYPES[dtype]), dtype)


def _argmax(graph: _Graph, one: Any, dim: int) -> str:
    name = graph.add("ArgMax", graph.value(one), axis=dim, keepdims=0)
    return graph.set_dtype(name, torch.int64)


_TRANSLATIONS: dict[str, Callable[..., str]] = {
    **{name: _elementwise(name.capitalize()) for name in ("add", "sub", "mul")},
    **dict.fromkeys(("div", "truediv"), _elementwise("Div")),
    **{
        name: _of_one(name.capitalize())
        for name in ("neg", "abs", "sqrt", "exp", "log", "cos", "round")
    },
    "sum": _over("ReduceSum"),
    "amax": _over("ReduceMax"),
    "matmul": _matmul,
    "linear": _linear,
    "reshape": _reshape,
    "unsqueeze": _unsqueeze,
    "clamp": _clamp,
    "softmax": _softmax,
    "permute": _permute,
    "flip": _flip,
    "cat": _cat,
    "index_select": _index_select,
    "pad": _pad,
    "to": _to,
    "argmax": _argmax,
}
"""Operations of modules by name, and what they are in ONNX."""
